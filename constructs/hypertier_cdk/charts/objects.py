"""All Kubernetes objects of an endpoint, as plain data in the order in which they are to be applied."""

from __future__ import annotations

import re

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier_cdk.charts.engine import engine_objects
from hypertier_cdk.charts.exporter import exporter_objects
from hypertier_cdk.charts.ingress import ingress_objects
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.names import names_of
from hypertier_cdk.charts.network_policies import network_policies
from hypertier_cdk.charts.operator import operator_objects
from hypertier_cdk.charts.pods import Object
from hypertier_cdk.charts.pre_pull import pre_pull_objects
from hypertier_cdk.charts.refusals import refuse_what_would_be_off
from hypertier_cdk.charts.router import router_objects
from hypertier_cdk.charts.verify import verify_objects

# the first with `preStop.sleep` on by default, and the oldest that HyperPod takes:
# https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/ (read 2026-12-01)
OLDEST_KUBERNETES = (1, 30)
# a thing is applied after what it refers to
ORDER = (
    "Namespace",
    "ServiceAccount",
    "Certificate",
    "Role",
    "RoleBinding",
    "NetworkPolicy",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ConfigMap",
    "Service",
    "PodDisruptionBudget",
    "DaemonSet",
    "Deployment",
    "CronJob",
    "TriggerAuthentication",
    "ScaledObject",
    "HorizontalPodAutoscaler",
    "Ingress",
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


def deployment_objects(deployment: Deployment) -> list[Object]:
    """All objects as plain data, without cdk8s; what `hypertier lint` makes to see whether it can be done.

    Raises:
        ConfigError: a setting that cannot work, or would silently be without effect.
    """
    objects = namespace_objects(deployment)
    for endpoint in deployment.endpoints:
        objects += endpoint_objects(deployment, endpoint, ChartInputs())
    return objects


def check_version(version: str) -> None:
    """Refuse a Kubernetes that would drop part of what is rendered.

    Raises:
        ConfigError: older than `OLDEST_KUBERNETES`, or no version.
    """
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)", version)
    if match is None or (int(match[1]), int(match[2])) < OLDEST_KUBERNETES:
        raise ConfigError(
            "cluster.kubernetesVersion",
            version,
            "1.30 or newer: older ones ignore the sleep before a pod is stopped, and requests would be cut",
        )


def endpoint_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, inputs: ChartInputs
) -> list[Object]:
    """The objects of one endpoint, without its namespace.

    Raises:
        ConfigError: a setting of the manifest that cannot work, or would silently be without effect.
    """
    names = names_of(deployment, endpoint)
    check_version(deployment.cluster.kubernetes_version)
    if deployment.serving == "operator":
        return operator_objects(deployment, endpoint, inputs)
    refuse_what_would_be_off(endpoint)
    objects = [
        *network_policies(deployment, endpoint, names, inputs),
        *pre_pull_objects(deployment, endpoint, names, inputs),
        *engine_objects(deployment, endpoint, names, inputs),
        *router_objects(deployment, endpoint, names, inputs),
        *exporter_objects(deployment, endpoint, names, inputs),
        *verify_objects(deployment, endpoint, names, inputs),
        *ingress_objects(deployment, endpoint, names, inputs),
    ]
    return sorted(objects, key=lambda entry: ORDER.index(entry["kind"]))
