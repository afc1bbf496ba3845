"""What a chart cannot know from the deployment file: things that exist once AWS has made them."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.keywords import named_fields
from hypertier.tier.address import parse_l2_url
from hypertier_cdk.arguments import check_fields
from hypertier_cdk.charts.tiered_storage import DAEMON_URL, uses_tiered_storage

PLACEHOLDER_ANNOTATION = "hypertier.dev/placeholders"
PLACEHOLDER_L2_URL = "rediss://l2.placeholder.invalid:6379"
TOKEN_MARK = "${Token["


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ChartInputs:
    """Values that AWS gives, CDK tokens among them; None falls back to the files, then to a placeholder.

    `l2_url` goes before the manifest's `l2CacheLocalUrl`; it lies in the VPC where `l2_in_vpc` says so.
    `l2_secret_arn` holds L2's user and password. A role's ARN annotates the service account for IRSA; with
    EKS Pod Identity leave it out. `vpc_cidrs` narrows the network policies and the load balancer to the VPC,
    for what comes in beside the deployment's `cluster.clientCidrs`; without it nothing is known of the
    network, and nothing of it is narrowed.
    """

    l2_url: str | None = None
    l2_in_vpc: bool = True
    l2_secret_arn: str | None = None
    engine_image: str | None = None
    router_image: str | None = None
    engine_role_arn: str | None = None
    exporter_role_arn: str | None = None
    verify_role_arn: str | None = None
    vpc_cidrs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, "ChartInputs")


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value for the manifests; `placeholder` says how to replace it where it is only that."""

    value: str
    placeholder: str = field(default="")


def engine_image(deployment: Deployment, inputs: ChartInputs) -> Resolved:
    """The engine's image: from AWS, from the deployment file, or a name to push a build under."""
    return _image("engine", inputs.engine_image or deployment.images.engine)


def router_image(deployment: Deployment, inputs: ChartInputs) -> Resolved:
    """The image of router, exporter and verification."""
    return _image("router", inputs.router_image or deployment.images.router)


def _image(target: str, given: str | None) -> Resolved:
    if given:
        return Resolved(given)
    return Resolved(
        f"hypertier-{target}:{version('hypertier')}",
        f"image: build target {target} of runtime/Containerfile, and name it in images.{target}",
    )


def l2_url(endpoint: InferenceEndpointConfig, inputs: ChartInputs) -> Resolved:
    """L2's address: the node's own daemon, or a store's from AWS, from the manifest, or a placeholder.

    Raises:
        ConfigError: a URL that the tier could not use.
    """
    if uses_tiered_storage(endpoint):
        return Resolved(DAEMON_URL)
    spec = endpoint.kv_cache.l2_cache_spec
    written = spec.l2_cache_local_url if spec else None
    for setting, url in (
        ("ChartInputs.l2_url", inputs.l2_url),
        (f"{endpoint.name}: spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl", written),
    ):
        if url is not None:
            if TOKEN_MARK not in url:
                parse_l2_url(url, setting)
            return Resolved(url)
    return Resolved(
        PLACEHOLDER_L2_URL,
        "HYPERTIER_L2_URL: the CDK fills in the store's address; else set "
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
    )


def client_cidrs(deployment: Deployment, inputs: ChartInputs) -> tuple[str, ...]:
    """Where clients outside the cluster are: in the VPC and where `cluster.clientCidrs` says; empty for
    anywhere, where neither is known."""
    return tuple(dict.fromkeys((*inputs.vpc_cidrs, *deployment.cluster.client_cidrs)))


def placeholder_annotations(*values: Resolved) -> dict[str, Any]:
    """The annotation that says what in a workload is not the real thing yet; empty where all is."""
    missing = [value.placeholder for value in values if value.placeholder]
    return {PLACEHOLDER_ANNOTATION: "; ".join(missing)} if missing else {}


def refuse(endpoint: InferenceEndpointConfig, path: str, got: Any, expected: str) -> ConfigError:
    """The error for a field of the manifest, by the endpoint's name and the field's path."""
    return ConfigError(f"{endpoint.name}: {path}", got, expected)
