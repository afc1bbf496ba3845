"""What of a manifest only AWS's operator does: nothing of it is silently off when we serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypertier.spec import codec
from hypertier.spec.endpoint import L2_BACKENDS, InferenceEndpointConfig
from hypertier.spec.tree import Path
from hypertier_cdk.charts.inputs import refuse
from hypertier_cdk.charts.shapes import InitContainer, Toleration, check_probe, check_quantities, check_shape
from hypertier_cdk.charts.tiered_storage import VOLUME

WITHOUT_EFFECT_ANNOTATION = "hypertier.dev/without-effect"
OWN_VOLUMES = ("shm", "tmp", VOLUME)
SERVED = frozenset(
    {
        "spec.modelName",
        "spec.replicas",
        "spec.instanceType",
        "spec.instanceTypes",
        "spec.invocationEndpoint",  # the router answers every path of OpenAI's
        "spec.maxDeployTimeInSeconds",
        "spec.autoScalingSpec",
        "spec.intelligentRoutingSpec",
        "spec.kubernetes",
        "spec.kvCacheSpec.enableL1Cache",
        "spec.kvCacheSpec.enableL2Cache",
        "spec.kvCacheSpec.l2CacheSpec",
        "spec.metrics.enabled",
        "spec.metrics.modelMetrics",  # vLLM has but one place for them
        "spec.modelSourceConfig.modelSourceType",
        "spec.modelSourceConfig.modelLocation",
        "spec.modelSourceConfig.s3Storage",
        "spec.modelSourceConfig.fsxStorage",
        "spec.modelSourceConfig.huggingFaceModel",
        "spec.tlsConfig.customCertificateConfig",
        "spec.worker.image",
        "spec.worker.args",
        "spec.worker.command",
        "spec.worker.workingDir",
        "spec.worker.environmentVariables",
        "spec.worker.modelInvocationPort",
        "spec.worker.modelVolumeMount",
        "spec.worker.probes",
        "spec.worker.resources.requests",
        "spec.worker.resources.limits",
    }
)
BEHIND_A_LOAD_BALANCER = frozenset(
    {"spec.loadBalancer.routingAlgorithm", "spec.loadBalancer.idleTimeoutSeconds"}
)
WITHOUT_EFFECT = BEHIND_A_LOAD_BALANCER | {
    "metadata.labels",
    "metadata.annotations",
    "spec.InitialReplicaCount",
    "spec.loadBalancer.healthCheckPath",
    "spec.metrics.metricsScrapeIntervalSeconds",
    "spec.modelVersion",
    "spec.tags",
    "spec.tlsConfig.tlsCertificateOutputS3Uri",
}
WHY_NOT = {
    "spec.kvCacheSpec.cacheConfigFile": "it configures LMCache",
    "spec.lmcache": "no LMCache runs",
    "spec.pdSpec": "one kind of engine is rendered; hypertier router takes others by --prefill-replica",
    "spec.dataCapture": "no requests are captured",
    "spec.worker.requestLimits": "no proxy in the pod counts requests",
    "spec.endpointName": "no SageMaker endpoint is registered",
    "spec.dnsConfig": "no record is made; point the domain at the Ingress's address",
    "spec.nodeAffinity": "pods go to the instance group of instanceType",
    "spec.inferenceGateway": "our router stands in front",
    "spec.modelSourceConfig.prefetchEnabled": "engines read the weights when they start",
}
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


def refuse_what_would_be_off(endpoint: InferenceEndpointConfig) -> None:
    """Refuse what would change how requests are answered, and is not done here.

    Raises:
        ConfigError: names the field.
    """
    spec, cache = endpoint.spec, endpoint.kv_cache
    if cache.l2_enabled and (cache.l2_backend or "").lower() not in L2_BACKENDS:
        raise refuse(
            endpoint,
            "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
            cache.l2_backend,
            " or ".join(L2_BACKENDS),
        )
    for path, got in unserved_fields(endpoint):
        why = WHY_NOT.get(path, "nothing here reads it")
        raise refuse(endpoint, path, got, f"no such field with serving: selfhosted ({why})")
    if spec.worker.model_invocation_port.name == "grpc":
        raise refuse(
            endpoint,
            "spec.worker.modelInvocationPort.name",
            "grpc",
            "http: router and engines speak OpenAI's HTTP API",
        )
    check_shape(endpoint, InferenceEndpointConfig, endpoint.to_manifest(), ())
    _check_kubernetes(endpoint)
    check_quantities(endpoint)
    for name, probe in codec.encode(spec.worker.probes).items() if spec.worker.probes else ():
        check_probe(endpoint, name, probe)


def _check_kubernetes(endpoint: InferenceEndpointConfig) -> None:
    """Refuse what of `spec.kubernetes` no pod of ours may have."""
    wishes = endpoint.spec.kubernetes or {}
    for number, container in enumerate(wishes.get("initContainers") or ()):
        where: Path = ("spec", "kubernetes", "initContainers", number)
        check_shape(endpoint, InitContainer, container, where, open_ended=True)
    for number, toleration in enumerate(wishes.get("tolerations") or ()):
        check_shape(endpoint, Toleration, toleration, ("spec", "kubernetes", "tolerations", number))
    for key, text in (wishes.get("podTemplateAnnotations") or {}).items():
        if not isinstance(text, str):
            raise refuse(endpoint, f"spec.kubernetes.podTemplateAnnotations.{key}", text, "text, in quotes")
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
        kinds = [kind for kind in volume if kind != "name"]
        for kind in kinds or [None]:
            if kind not in VOLUME_KINDS or len(kinds) > 1:
                raise refuse(
                    endpoint,
                    f"spec.kubernetes.volumes.{name}",
                    kind,
                    f"one of {', '.join(VOLUME_KINDS)}: the namespace is held to Kubernetes' restricted pod "
                    "standard, which would reject every engine",
                )
        taken.append(name)


def unserved_fields(endpoint: InferenceEndpointConfig) -> Iterator[tuple[str, Any]]:
    """Every field that is written and neither served nor known to be without effect, by its path."""
    return _unserved(codec.encode(endpoint.spec), "spec")


def _unserved(fields: Mapping[str, Any], parent: str) -> Iterator[tuple[str, Any]]:
    for key, got in fields.items():
        path = f"{parent}.{key}"
        if not got or path in SERVED or path in WITHOUT_EFFECT:
            continue
        if isinstance(got, Mapping) and any(
            known.startswith(f"{path}.") for known in SERVED | WITHOUT_EFFECT
        ):
            yield from _unserved(got, path)
        else:
            yield path, got


def without_effect(endpoint: InferenceEndpointConfig) -> list[str]:
    """Fields that say nothing here, though requests are answered; `hypertier render` lists them."""
    spec = endpoint.spec
    written = {
        "metadata": codec.encode(endpoint.metadata),
        "spec": codec.encode(spec),
    }
    tls = spec.tls_config
    served = BEHIND_A_LOAD_BALANCER if tls and tls.custom_certificate_config else frozenset()
    return sorted(path for path in WITHOUT_EFFECT - served if _value_at(written, path))


def _value_at(fields: Any, path: str) -> Any:
    for key in path.split("."):
        fields = fields.get(key) if isinstance(fields, Mapping) else None
    return fields
