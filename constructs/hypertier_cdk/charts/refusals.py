"""What of a manifest only AWS's operator does: nothing of it is silently off when we serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypertier.spec import codec
from hypertier.spec.endpoint import L2_BACKENDS, InferenceEndpointConfig
from hypertier.spec.selfhosted import BEHIND_A_LOAD_BALANCER, WITHOUT_EFFECT, unserved_fields
from hypertier.spec.tree import Path, dotted
from hypertier_cdk.charts.inputs import refuse
from hypertier_cdk.charts.shapes import InitContainer, Toleration, check_probe, check_quantities, check_shape
from hypertier_cdk.charts.tiered_storage import VOLUME

WITHOUT_EFFECT_ANNOTATION = "hypertier.dev/without-effect"
OWN_VOLUMES = ("shm", "tmp", "engine-tls", VOLUME)
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
    for where, got, why in unserved_fields(codec.encode(spec)):
        raise refuse(endpoint, dotted(where), got, f"no such field with serving: selfhosted ({why.en})")
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


def without_effect(endpoint: InferenceEndpointConfig) -> list[str]:
    """Fields that say nothing here, though requests are answered; `hypertier render` lists them."""
    spec = endpoint.spec
    written = {
        "metadata": codec.encode(endpoint.metadata),
        "spec": codec.encode(spec),
    }
    tls = spec.tls_config
    served = BEHIND_A_LOAD_BALANCER if tls and tls.custom_certificate_config else frozenset()
    paths = WITHOUT_EFFECT - served
    if spec.pd_spec is not None:
        paths |= {"spec.replicas"}  # each kind of engine has its own
    return sorted(path for path in paths if _value_at(written, path))


def _value_at(fields: Any, path: str) -> Any:
    for key in path.split("."):
        fields = fields.get(key) if isinstance(fields, Mapping) else None
    return fields
