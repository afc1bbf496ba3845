"""The same manifest for AWS's HyperPod inference operator: a custom resource, as it was written."""

from __future__ import annotations

import re
from typing import Any

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier_cdk.charts.inputs import ChartInputs, refuse
from hypertier_cdk.charts.pods import Object

# "Amazon SageMaker HyperPod Inference release notes" in the SageMaker AI developer guide (read 2026-12-01):
# the first version of the operator that knows a field.
FIELD_SINCE = {
    "spec.pdSpec": (3, 2),
    "spec.modelCacheConfig": (3, 3),
    "spec.loadBalancer.idleTimeoutSeconds": (3, 3),
    "spec.inferenceGateway": (3, 6),
    "spec.kubernetes.podTemplateAnnotations": (3, 6),
    "spec.kubernetes.tolerations": (3, 7),
    "spec.lmcache": (3, 7),
}
# earlier versions turn both tiers on whatever the manifest says
SWITCHES_OBEYED_SINCE = (3, 3)


def operator_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, inputs: ChartInputs
) -> list[Object]:
    """The custom resource; L2's address is filled in where the manifest leaves it to AWS.

    Raises:
        ConfigError: something that the operator of `operator.version` would ignore or drop.
    """
    version = operator_version(deployment)
    manifest = endpoint.to_manifest()
    for path, since in FIELD_SINCE.items():
        got = _value_at(manifest, path)
        if got is not None and version < since:
            raise refuse(endpoint, path, got, _newer(deployment, since))
    cache = endpoint.spec.kv_cache_spec
    if cache and version < SWITCHES_OBEYED_SINCE:
        for name, switch in (
            ("enableL1Cache", cache.enable_l1_cache),
            ("enableL2Cache", cache.enable_l2_cache),
        ):
            if switch is False:
                raise refuse(
                    endpoint, f"spec.kvCacheSpec.{name}", False, _newer(deployment, SWITCHES_OBEYED_SINCE)
                )
    manifest.pop("status", None)
    if endpoint.kv_cache.l2_backend == "redis":
        l2 = manifest["spec"]["kvCacheSpec"]["l2CacheSpec"]
        address = inputs.l2_url or l2.get("l2CacheLocalUrl")
        if address is None:
            raise refuse(
                endpoint,
                "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
                None,
                "redis://HOST:PORT or rediss://HOST:PORT of the store that l2CacheBackend redis means",
            )
        l2["l2CacheLocalUrl"] = address
    return [manifest]


def operator_version(deployment: Deployment) -> tuple[int, int]:
    """Major and minor of `operator.version`.

    Raises:
        ConfigError: it is no version.
    """
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)(\.[0-9]+)?", deployment.operator.version)
    if match is None:
        raise ConfigError(
            "operator.version", deployment.operator.version, "a version of AWS's operator, such as 3.7"
        )
    return int(match[1]), int(match[2])


def _newer(deployment: Deployment, since: tuple[int, int]) -> str:
    major, minor = since
    return (
        f"operator.version {major}.{minor} or newer for that; with {deployment.operator.version} the "
        "operator would do as if it were not there"
    )


def _value_at(manifest: Any, path: str) -> Any:
    value = manifest
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value
