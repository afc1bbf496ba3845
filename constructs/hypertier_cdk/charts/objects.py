"""All Kubernetes objects of an endpoint, as plain data in the order in which they are to be applied."""

from __future__ import annotations

from typing import Any

from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier_cdk.charts.engine import engine_objects
from hypertier_cdk.charts.exporter import exporter_objects
from hypertier_cdk.charts.inputs import ChartInputs, refuse
from hypertier_cdk.charts.names import names_of
from hypertier_cdk.charts.network_policies import network_policies
from hypertier_cdk.charts.operator import operator_objects
from hypertier_cdk.charts.pods import Object
from hypertier_cdk.charts.router import router_objects

# a thing is applied after what it refers to
ORDER = (
    "Namespace",
    "ServiceAccount",
    "NetworkPolicy",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Service",
    "PodDisruptionBudget",
    "Deployment",
    "TriggerAuthentication",
    "ScaledObject",
    "HorizontalPodAutoscaler",
    "InferenceEndpointConfig",
)


def namespace_objects(deployment: Deployment) -> list[Object]:
    """The namespaces of the endpoints; pods in them are held to Kubernetes' strictest standard.

    The operator's own pods are not ours to restrict.
    """
    labels = {"app.kubernetes.io/part-of": deployment.name, "app.kubernetes.io/managed-by": "hypertier"}
    if deployment.serving == "selfhosted":
        labels |= {
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/enforce-version": f"v{deployment.cluster.kubernetes_version}",
        }
    namespaces = dict.fromkeys(endpoint.namespace for endpoint in deployment.endpoints)
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name in namespaces
        if name != "default"
    ]


def endpoint_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, inputs: ChartInputs
) -> list[Object]:
    """The objects of one endpoint, without its namespace.

    Raises:
        ConfigError: a setting of the manifest that cannot work, or would silently be without effect.
    """
    names = names_of(deployment, endpoint)
    if deployment.serving == "operator":
        return operator_objects(deployment, endpoint, inputs)
    refuse_what_would_be_off(endpoint)
    objects = [
        *network_policies(endpoint, names, inputs),
        *engine_objects(deployment, endpoint, names, inputs),
        *router_objects(deployment, endpoint, names, inputs),
        *exporter_objects(deployment, endpoint, names, inputs),
    ]
    return sorted(objects, key=lambda entry: ORDER.index(entry["kind"]))


def refuse_what_would_be_off(endpoint: InferenceEndpointConfig) -> None:
    """Refuse what only AWS's operator does: nothing of a manifest is silently off.

    Raises:
        ConfigError: names the field.
    """
    spec, cache = endpoint.spec, endpoint.kv_cache
    if cache.l2_enabled and (cache.l2_backend or "").lower() != "redis":
        raise refuse(
            endpoint,
            "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
            cache.l2_backend,
            "redis: with serving: selfhosted there is no backend for HyperPod's tiered storage; use Valkey, "
            "or serving: operator",
        )
    only_operator: tuple[tuple[str, Any, str], ...] = (
        (
            "spec.kvCacheSpec.cacheConfigFile",
            cache.cache_config_file,
            "it configures LMCache, which is not used",
        ),
        ("spec.pdSpec", spec.pd_spec, "prefill and decode run in the same engine"),
        ("spec.dataCapture", spec.data_capture, "no requests are captured"),
        ("spec.worker.requestLimits", spec.worker.request_limits, "no proxy in the pod counts requests"),
        ("spec.endpointName", spec.endpoint_name, "no SageMaker endpoint is registered"),
        ("spec.tlsConfig", spec.tls_config, "the router's Service speaks plain HTTP inside the cluster"),
        ("spec.dnsConfig", spec.dns_config, "no record is made in Route 53"),
    )
    for path, got, why in only_operator:
        if got:
            raise refuse(endpoint, path, got, f"no such field with serving: selfhosted ({why})")
