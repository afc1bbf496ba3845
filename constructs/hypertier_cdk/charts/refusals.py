"""What of a manifest only AWS's operator does: nothing of it is silently off when we serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from hypertier.spec import codec
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier_cdk.charts.inputs import refuse

WITHOUT_EFFECT_ANNOTATION = "hypertier.dev/without-effect"
OWN_VOLUMES = ("shm", "tmp")
# of Kubernetes' `restricted` standard, which namespaces are held to:
# https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted (read 2026-12-01)
VOLUME_KINDS = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
KUBERNETES_KEYS = (
    "initContainers",
    "podTemplateAnnotations",
    "schedulerName",
    "serviceAccountName",
    "tolerations",
    "volumes",
)


def refuse_what_would_be_off(endpoint: InferenceEndpointConfig) -> None:
    """Refuse what would change how requests are answered, and is not done here.

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
        ("spec.kvCacheSpec.cacheConfigFile", cache.cache_config_file, "it configures LMCache"),
        ("spec.pdSpec", spec.pd_spec, "prefill and decode run in the same engine"),
        ("spec.dataCapture", spec.data_capture, "no requests are captured"),
        ("spec.worker.requestLimits", spec.worker.request_limits, "no proxy in the pod counts requests"),
        ("spec.endpointName", spec.endpoint_name, "no SageMaker endpoint is registered"),
        ("spec.dnsConfig", spec.dns_config, "no record is made; point the domain at the Ingress's address"),
        (
            "spec.modelSourceConfig.prefetchEnabled",
            spec.model_source_config.prefetch_enabled,
            "engines read the weights from where they are when they start",
        ),
        *((path, got, "it is not known") for path, got in unknown_fields(spec, "spec")),
    )
    for path, got, why in only_operator:
        if got:
            raise refuse(endpoint, path, codec.encode(got), f"no such field with serving: selfhosted ({why})")
    if spec.worker.model_invocation_port.name == "grpc":
        raise refuse(
            endpoint,
            "spec.worker.modelInvocationPort.name",
            "grpc",
            "http: router and engines speak OpenAI's HTTP API",
        )
    _check_kubernetes(endpoint)


def _check_kubernetes(endpoint: InferenceEndpointConfig) -> None:
    """Refuse what of `spec.kubernetes` is not taken over, or no pod of ours may have."""
    wishes = endpoint.spec.kubernetes or {}
    for key, got in wishes.items():
        if key not in KUBERNETES_KEYS:
            raise refuse(endpoint, f"spec.kubernetes.{key}", got, f"one of {', '.join(KUBERNETES_KEYS)}")
    weights = endpoint.spec.worker.model_volume_mount.name
    taken = [*OWN_VOLUMES]
    if endpoint.spec.model_source_config.model_source_type != "kubernetesVolume":
        taken.append(weights)
    if weights in OWN_VOLUMES:
        raise refuse(
            endpoint,
            "spec.worker.modelVolumeMount.name",
            weights,
            f"another name: the pod has volumes {', '.join(OWN_VOLUMES)} of its own",
        )
    for volume in wishes.get("volumes") or ():
        name = volume.get("name") if isinstance(volume, Mapping) else None
        if not isinstance(name, str) or name in taken:
            raise refuse(
                endpoint,
                "spec.kubernetes.volumes.name",
                name,
                f"a name that is not yet taken, as {', '.join(taken)} are",
            )
        for kind in volume:
            if kind != "name" and kind not in VOLUME_KINDS:
                raise refuse(
                    endpoint,
                    f"spec.kubernetes.volumes.{name}",
                    kind,
                    f"one of {', '.join(VOLUME_KINDS)}: the namespace is held to Kubernetes' restricted pod "
                    "standard, which would reject every engine",
                )
        taken.append(name)


def unknown_fields(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every field that the manifest has and its schema has not, by its path."""
    for key, got in value.unknown.items():
        yield f"{path}.{key}", got
    cls: type = type(value)
    for key, (attribute, _) in codec.fields_by_name(cls).items():
        child = getattr(value, attribute)
        if dataclasses.is_dataclass(child):
            yield from unknown_fields(child, f"{path}.{key}")
        elif isinstance(child, tuple):
            for number, item in enumerate(child):
                if dataclasses.is_dataclass(item):
                    yield from unknown_fields(item, f"{path}.{key}.{number}")


def without_effect(endpoint: InferenceEndpointConfig) -> list[str]:
    """Fields that say nothing here, though requests are answered; `hypertier render` lists them."""
    spec = endpoint.spec
    balancer, tls = spec.load_balancer, spec.tls_config
    exposed = tls is not None and tls.custom_certificate_config is not None
    fields = {
        "metadata.labels": endpoint.metadata.labels,
        "metadata.annotations": endpoint.metadata.annotations,
        "spec.InitialReplicaCount": spec.initial_replica_count,
        "spec.modelVersion": spec.model_version,
        "spec.tags": spec.tags,
        "spec.metrics.metricsScrapeIntervalSeconds": spec.metrics
        and spec.metrics.metrics_scrape_interval_seconds,
        "spec.loadBalancer.healthCheckPath": balancer and balancer.health_check_path,
        "spec.loadBalancer.routingAlgorithm": not exposed and balancer and balancer.routing_algorithm,
        "spec.loadBalancer.idleTimeoutSeconds": not exposed and balancer and balancer.idle_timeout_seconds,
        "spec.tlsConfig.tlsCertificateOutputS3Uri": exposed and tls and tls.tls_certificate_output_s3_uri,
    }
    return [path for path, got in fields.items() if got]
