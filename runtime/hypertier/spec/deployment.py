"""The deployment file: what an endpoint manifest has no field for.

Every key but `endpoints` has a default; unknown keys are errors. Sizes, rates and durations stay as they were
written and are parsed once, when the file is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from hypertier.catalog.zones import REGION, zones_of
from hypertier.errors import ConfigError, ManifestError
from hypertier.spec import codec, structure
from hypertier.spec.access import Access, check_deployed
from hypertier.spec.cache_tiers import CacheTiers, check_tenants_of
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.instance_group import (
    GROUP_NAME,
    GROUP_NAME_FORM,
    InstanceGroup,
    check_open,
    check_together,
    settled,
)
from hypertier.spec.routing import Routing, check_routing
from hypertier.spec.source import read_documents, read_text
from hypertier.spec.tree import View, dotted, objects
from hypertier.tier.transfer import NIXL_BACKENDS, check_backend

API_VERSION = "hypertier.dev/v1"
KIND = "Deployment"
IMAGE = re.compile(r"[!-~]{1,512}")
IMAGE_FORM = "an image, such as registry.internal/engine:1.2"
CONTROLLER_MODES = ("install", "existing")
# What a kubectl function can log in to, and a closed network reach.
REGISTRY = re.compile(r"[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(/[a-z0-9._/-]*[a-z0-9])?")
REGISTRY_FORM = "an Amazon ECR registry, ACCOUNT.dkr.ecr.REGION.amazonaws.com, with a path or without"
SERVING_MODES = ("selfhosted", "operator")
# Stacks, Helm releases and Kubernetes objects are named after a deployment; each has rules of its own.
DEFAULT_NAME = "hypertier"
NAME = re.compile(r"[a-z](-?[a-z0-9]){0,50}")
NAME_FORM = "a lower-case letter, then lower-case letters, digits and single hyphens, 51 at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """AWS's inference operator, for `serving: operator`."""

    version: str = "3.7"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?", self.version):
            raise ConfigError("operator.version", self.version, "a version of AWS's operator, such as 3.7")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAttributes:
    """What AWS says of a cluster that exists already.

    `aws sagemaker describe-cluster` tells `arn` and the nodes' security group, `aws eks describe-cluster` the
    rest; `oidc_provider_arn` is needed where weights are mounted from S3, or AWS's operator is brought. EKS
    `addons` and `namespaces` that it has are left as they are.
    """

    arn: str
    eks_cluster_name: str
    eks_security_group_id: str
    node_security_group_id: str
    vpc_id: str
    availability_zones: tuple[str, ...]
    private_subnet_ids: tuple[str, ...]
    oidc_provider_arn: str | None = None
    vpc_cidrs: tuple[str, ...] = ()
    addons: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for cidr in self.vpc_cidrs:
            check_cidr("cluster.attributes.vpcCidrs", cidr)
        if len(self.private_subnet_ids) != len(self.availability_zones):
            raise ConfigError(
                "cluster.attributes.privateSubnetIds",
                list(self.private_subnet_ids),
                f"one for each of availabilityZones, which are {', '.join(self.availability_zones)}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A new EKS and HyperPod cluster of `kubernetes_version`, or the name of an `existing` HyperPod cluster.

    An existing one is never changed; the CDK needs its `attributes`, since it asks nothing of AWS.
    `client_cidrs` are where clients are beside the VPC and the cluster's own pods.
    """

    kubernetes_version: str = "1.35"
    existing: str | None = None
    attributes: ClusterAttributes | None = None
    closed_network: bool = False
    client_cidrs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for cidr in self.client_cidrs:
            check_cidr("cluster.clientCidrs", cidr)
        if not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", self.kubernetes_version):
            raise ConfigError("cluster.kubernetesVersion", self.kubernetes_version, "a version, such as 1.35")
        if self.existing is not None and not GROUP_NAME.fullmatch(self.existing):
            raise ConfigError("cluster.existing", self.existing, f"a cluster's name: {GROUP_NAME_FORM}")
        if self.attributes is not None and self.existing is None:
            raise ConfigError(
                "cluster.existing", None, "the name of the HyperPod cluster that cluster.attributes tell of"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Disaggregation:
    """How KV cache moves between engines of an endpoint with `pdSpec`: by which of NIXL's `backend`s."""

    backend: str = NIXL_BACKENDS[0]

    def __post_init__(self) -> None:
        check_backend("disaggregation.backend", self.backend)


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Container images that exist already; without them they are built from `runtime/Containerfile`.

    NVIDIA's device plugin comes from NVIDIA's registry, which a closed network cannot reach: there it must
    be named. The EFA device plugin, for endpoints that ask for EFA, comes from Amazon EKS's own registries.
    """

    engine: str | None = None
    router: str | None = None
    nvidia_device_plugin: str | None = None
    efa_device_plugin: str | None = None

    def __post_init__(self) -> None:
        for key, image in (
            ("engine", self.engine),
            ("router", self.router),
            ("nvidiaDevicePlugin", self.nvidia_device_plugin),
            ("efaDevicePlugin", self.efa_device_plugin),
        ):
            if image is not None and not IMAGE.fullmatch(image):
                raise ConfigError(f"images.{key}", image, IMAGE_FORM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """KEDA for an `autoScalingSpec`, the AWS Load Balancer Controller for a `tlsConfig`.

    Each is installed where an endpoint needs it, unless it is `existing`; on a cluster that exists already it
    must be said which. `registry` holds copies of their charts and images, for a closed network.
    """

    keda: str | None = None
    load_balancer: str | None = None
    registry: str | None = None

    def __post_init__(self) -> None:
        for key, mode in (("keda", self.keda), ("loadBalancer", self.load_balancer)):
            if mode is not None and mode not in CONTROLLER_MODES:
                raise ConfigError(f"controllers.{key}", mode, " or ".join(CONTROLLER_MODES))
        if self.registry is not None and not REGISTRY.fullmatch(self.registry):
            raise ConfigError("controllers.registry", self.registry, REGISTRY_FORM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How many engine replicas, and what a month may cost in US dollars."""

    min: int = 1
    max: int = 1
    monthly_budget_usd: float | None = None

    def __post_init__(self) -> None:
        if self.min < 1:
            raise ConfigError("scaling.min", self.min, "1 or more replicas")
        if self.max < self.min:
            raise ConfigError("scaling.max", self.max, f"at least scaling.min, which is {self.min}")
        budget = self.monthly_budget_usd
        if budget is not None and not 0 < budget < float("inf"):
            raise ConfigError("scaling.monthlyBudgetUsd", budget, "US dollars, more than 0")


def _default_groups() -> tuple[InstanceGroup, ...]:
    return (
        InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=3),
        InstanceGroup(name="gpu", instance_type="ml.p5.48xlarge", count=7),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A cluster, its cache and the endpoints on it.

    `endpoints` holds the endpoint manifests as values; in a file they are paths relative to the file.
    """

    endpoints: tuple[InferenceEndpointConfig, ...]
    name: str = DEFAULT_NAME
    region: str = "us-west-2"
    serving: str = "selfhosted"
    operator: Operator = field(default_factory=Operator)
    cluster: Cluster = field(default_factory=Cluster)
    instance_groups: tuple[InstanceGroup, ...] = field(default_factory=_default_groups)
    cache: CacheTiers = field(default_factory=CacheTiers)
    images: Images = field(default_factory=Images)
    controllers: Controllers = field(default_factory=Controllers)
    scaling: Scaling = field(default_factory=Scaling)
    disaggregation: Disaggregation = field(default_factory=Disaggregation)
    routing: Routing = field(default_factory=Routing)
    access: Access | None = None

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise ConfigError("endpoints", [], "at least one endpoint manifest")
        if self.serving not in SERVING_MODES:
            raise ConfigError("serving", self.serving, " or ".join(SERVING_MODES))
        if self.access is not None:
            check_deployed(self.access, self.serving)
        check_routing(self.routing, self.serving)
        shared_cache = self.access is not None and self.access.shared_cache
        check_tenants_of(self.cache.l2, self.serving, shared_cache=shared_cache)
        check_together(self.instance_groups, "instanceGroups")
        for group in self.instance_groups:
            group.check_fallbacks()
        if self.cluster.existing is None:
            tiered = self.cache.l2.backend == "tieredstorage"
            check_open(settled(self.instance_groups, tiered_storage=tiered), "instanceGroups")
        if not NAME.fullmatch(self.name):
            raise ConfigError("name", self.name, NAME_FORM)
        check_region(self.region)
        for group in self.instance_groups:
            if group.availability_zone_id is not None:
                check_zone(group.availability_zone_id, self.region, f"instanceGroups.{group.name}")
        served = [(endpoint.namespace, endpoint.name) for endpoint in self.endpoints]
        for namespace, name in served:
            if served.count((namespace, name)) > 1:
                raise ConfigError(
                    "endpoints",
                    [name for _, name in served],
                    f"one manifest of the name {name} in {namespace}",
                )

    def group_for(self, endpoint: InferenceEndpointConfig) -> InstanceGroup:
        """The instance group that `endpoint` runs on, by the first of its instance types that is there.

        Raises:
            ConfigError: where no group has one of the endpoint's instance types.
        """
        for instance_type in endpoint.instance_types:
            for group in self.instance_groups:
                if group.instance_type == instance_type:
                    return group
        raise ConfigError(
            f"{endpoint.name}: spec.instanceType",
            endpoint.spec.instance_type or list(endpoint.instance_types) or None,
            "the type of one of the deployment's instanceGroups, which are "
            + ", ".join(f"{group.name} ({group.instance_type})" for group in self.instance_groups),
        )


def check_cidr(setting: str, cidr: object) -> None:
    """Refuse what is no range of IPv4 addresses.

    EKS gives pods and Services addresses of one family, here IPv4: nobody ever comes from an IPv6 range.
    https://docs.aws.amazon.com/eks/latest/userguide/cni-ipv6.html (read 2026-12-01)

    Raises:
        ConfigError: names `setting`.
    """
    try:
        if not isinstance(cidr, str) or "/" not in cidr:
            raise ValueError("no prefix length")
        if ip_network(cidr).version != 4:
            raise ValueError("the cluster's pods and load balancers have IPv4 addresses alone")
    except ValueError as error:
        raise ConfigError(setting, cidr, f"ranges of IPv4 addresses such as 10.0.0.0/8 ({error})") from None


def check_region(region: str) -> None:
    """Refuse what no Region of AWS is called.

    Raises:
        ConfigError: names it.
    """
    if not REGION.fullmatch(region):
        raise ConfigError("region", region, "a Region of AWS, such as us-west-2")


def check_zone(zone_id: str, region: str, group: str) -> None:
    """Refuse a zone of another Region than the deployment's.

    Raises:
        ConfigError: names `group`, as one finds it in the file.
    """
    beside = zones_of(region)
    if beside and zone_id.partition("-")[0] != beside[0].partition("-")[0]:
        raise ConfigError(
            f"{group}.availabilityZoneId", zone_id, f"a zone of {region}, such as {', '.join(beside)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFile:
    """The deployment file as it is written: like `Deployment`, with paths for endpoints."""

    endpoints: tuple[str, ...]
    api_version: str = API_VERSION
    kind: str = KIND
    name: str | None = None
    region: str | None = None
    serving: str | None = None
    operator: Operator | None = None
    cluster: Cluster | None = None
    instance_groups: tuple[InstanceGroup, ...] | None = None
    cache: CacheTiers | None = None
    images: Images | None = None
    controllers: Controllers | None = None
    scaling: Scaling | None = None
    disaggregation: Disaggregation | None = None
    routing: Routing | None = None
    access: Access | None = None


def load_deployment(path: Path | str) -> Deployment:
    """Read a deployment file and the endpoint manifests that it names.

    Raises:
        ManifestError: a file is missing, is no YAML, or holds no single document of its kind.
        ConfigError: a setting that cannot work, or a key that does not exist.
    """
    file = Path(path)
    document = _single_document(file)
    if document.get("kind") != KIND or document.get("apiVersion") != API_VERSION:
        got = f"{document.get('apiVersion')} {document.get('kind')}"
        raise ConfigError(f"{file}: apiVersion and kind", got, f"{API_VERSION} {KIND}")
    _refuse_unknown_keys(document)
    written = codec.decode_or_raise(DeploymentFile, document)
    if written.instance_groups is not None:
        groups = tuple(group.found_from(file.parent) for group in written.instance_groups)
        written = replace(written, instance_groups=groups)
    endpoints = tuple(
        InferenceEndpointConfig.from_manifest(_single_document(file.parent / name))
        for name in written.endpoints
    )
    return deployment_of(written, endpoints)


def deployment_of(file: DeploymentFile, endpoints: tuple[InferenceEndpointConfig, ...]) -> Deployment:
    """What a deployment file means with its manifests read and its defaults filled in."""
    chosen = {
        attribute: getattr(file, attribute)
        for attribute, _ in codec.fields_by_name(DeploymentFile).values()
        if attribute not in ("endpoints", "api_version", "kind") and getattr(file, attribute) is not None
    }
    return Deployment(endpoints=endpoints, **chosen)


def _single_document(file: Path) -> Mapping[str, Any]:
    written = read_documents(read_text(str(file)).removeprefix("\ufeff"), str(file))
    documents = [found for document in written for found in objects(document)]
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        raise ManifestError(str(file), 1, f"holds {len(documents)} documents; expected one mapping")
    return documents[0].data


def _refuse_unknown_keys(document: Mapping[str, Any]) -> None:
    """Raise for the first key that the deployment file does not have, however deep."""
    for fault in structure.faults(DeploymentFile, document):
        if fault.kind == "unknown":
            meant = f"{fault.rename}, or another of " if fault.rename else "one of "
            got = View(document).get(fault.where)
            raise ConfigError(dotted(fault.where), got, f"{meant}the keys {fault.expected}")
