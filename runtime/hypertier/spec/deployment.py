"""The deployment file: what an endpoint manifest has no field for.

Every key but `endpoints` has a default; unknown keys are errors. Sizes, rates and durations stay as they were
written and are parsed once, when the file is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypertier.errors import ConfigError, ManifestError
from hypertier.spec import codec, structure
from hypertier.spec.access import Access, check_deployed
from hypertier.spec.beside import deployment_beside
from hypertier.spec.cache_tiers import CacheTiers, check_tenants_of
from hypertier.spec.cluster import (
    Cluster,
    check_autoscaled,
    check_autoscaling,
    check_region,
    check_subnet,
    check_zone,
)
from hypertier.spec.endpoint import API_GROUP, InferenceEndpointConfig
from hypertier.spec.groups_together import check_open, check_together, settled
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.routing import Routing, check_routing
from hypertier.spec.scaling import Scaling as Scaling
from hypertier.spec.scaling import check_scaling
from hypertier.spec.schedules import check_served
from hypertier.spec.source import read_documents, read_text
from hypertier.spec.tiered_memory import memory_percent_of
from hypertier.spec.tree import View, dotted, objects
from hypertier.spec.verify import Verify, check_verified, check_verify
from hypertier.tier.transfer import NIXL_BACKENDS, check_backend

API_VERSION = "hypertier.dev/v1"
KIND = "Deployment"
# https://github.com/distribution/reference (its grammar; read 2026-12-02)
IMAGE = re.compile(
    r"(?=[!-~]{1,512}\Z)[A-Za-z0-9][A-Za-z0-9._-]*((:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+)?"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
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
    HyperPod's health agent comes from AWS's registry of the Region; where that is not known it must be named.
    With `pre_pull` each node with GPUs gets the engine's image before an engine comes to it.
    """

    engine: str | None = None
    router: str | None = None
    nvidia_device_plugin: str | None = None
    efa_device_plugin: str | None = None
    health_agent: str | None = None
    pre_pull: bool = True

    def __post_init__(self) -> None:
        for key, image in (
            ("engine", self.engine),
            ("router", self.router),
            ("nvidiaDevicePlugin", self.nvidia_device_plugin),
            ("efaDevicePlugin", self.efa_device_plugin),
            ("healthAgent", self.health_agent),
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


def default_groups() -> tuple[InstanceGroup, ...]:
    """The nodes of a deployment that names none."""
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
    instance_groups: tuple[InstanceGroup, ...] = field(default_factory=default_groups)
    cache: CacheTiers = field(default_factory=CacheTiers)
    images: Images = field(default_factory=Images)
    controllers: Controllers = field(default_factory=Controllers)
    scaling: Scaling = field(default_factory=Scaling)
    disaggregation: Disaggregation = field(default_factory=Disaggregation)
    routing: Routing = field(default_factory=Routing)
    access: Access | None = None
    verify: Verify | None = None

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise ConfigError("endpoints", [], "at least one endpoint manifest")
        if self.serving not in SERVING_MODES:
            raise ConfigError("serving", self.serving, " or ".join(SERVING_MODES))
        if self.access is not None:
            check_deployed(self.access, self.serving)
        check_routing(self.routing, self.serving)
        check_served(self.scaling.schedules, self.serving)
        splits = [bool(endpoint.spec.pd_spec) for endpoint in self.endpoints]
        check_scaling(self.scaling, self.serving, splits)
        sleeps = self.scaling.sleeps
        response = self.routing.timeouts.seconds("response")
        if sleeps is not None and sleeps.hold_seconds > response:
            expected = f"at most routing.timeouts.response, {self.routing.timeouts.response}"
            raise ConfigError("scaling.toZero.hold", sleeps.hold, expected)
        if sleeps is not None and self.verify is not None:
            zero = f"{self.scaling.zero_setting} 0"
            expected = f"no such section with {zero}: its requests would keep engines awake, or wake them"
            raise ConfigError("verify", "a section", expected)
        if self.verify is not None:
            check_verify(self.verify, self.serving, self.access)
            for endpoint in self.endpoints:
                metrics = endpoint.spec.metrics
                is_exported = metrics is None or metrics.enabled is not False
                check_verified(f"{endpoint.name}: ", endpoint.name, is_exported=is_exported)
        shared_cache = self.access is not None and self.access.shared_cache
        check_tenants_of(self.cache.l2, self.serving, shared_cache=shared_cache)
        check_together(self.instance_groups, "instanceGroups")
        memory_percent_of(self.cache.l2, self.instance_groups)
        for group in self.instance_groups:
            group.check_fallbacks()
        if self.cluster.existing is None:
            tiered = self.cache.l2.backend == "tieredstorage"
            check_open(settled(self.instance_groups, tiered_storage=tiered), "instanceGroups")
        if not NAME.fullmatch(self.name):
            raise ConfigError("name", self.name, NAME_FORM)
        check_region(self.region)
        check_autoscaling(self.cluster, self.instance_groups)
        for group in self.instance_groups:
            named = f"instanceGroups.{group.name}"
            check_autoscaled(self.cluster, group, named)
            if group.availability_zone_id is not None:
                check_zone(group.availability_zone_id, self.region, named)
                check_subnet(group.availability_zone_id, self.cluster, named)
        served = [(endpoint.namespace, endpoint.name) for endpoint in self.endpoints]
        for namespace, name in served:
            if served.count((namespace, name)) > 1:
                raise ConfigError(
                    "endpoints",
                    [name for _, name in served],
                    f"one manifest of the name {name} in {namespace}",
                )

    @property
    def tiered_percent(self) -> int:
        """Percent of each node's memory that tiered storage takes, where an endpoint uses it."""
        return memory_percent_of(self.cache.l2, self.instance_groups)

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
    verify: Verify | None = None


def load_deployment(path: Path | str) -> Deployment:
    """Read a deployment file and the endpoint manifests that it names.

    Raises:
        ManifestError: a file is missing, is no YAML, or holds no single document of its kind.
        ConfigError: a setting that cannot work, or a key that does not exist.
    """
    file = Path(path)
    document = single_document(file)
    check_kind(file, document)
    _refuse_unknown_keys(document)
    written = codec.decode_or_raise(DeploymentFile, document)
    if written.instance_groups is not None:
        groups = tuple(group.found_from(file.parent) for group in written.instance_groups)
        written = replace(written, instance_groups=groups)
    endpoints = tuple(
        InferenceEndpointConfig.from_manifest(single_document(file.parent / name))
        for name in written.endpoints
    )
    return deployment_of(written, endpoints)


def check_kind(file: Path, document: Mapping[str, Any]) -> None:
    """Refuse what is no deployment file; of an endpoint's manifest say what to do with it.

    Raises:
        ConfigError: it is of another kind, or of another version.
    """
    kind, version = document.get("kind"), document.get("apiVersion")
    if str(version).startswith(f"{API_GROUP}/"):
        raise ConfigError(
            f"{file}: kind",
            kind,
            f"a deployment file of kind {KIND} that names this manifest (docs/deployment-file.md), such as "
            f"this one beside it:\n\n{deployment_beside(file.name, document)}\n",
        )
    if kind != KIND or version != API_VERSION:
        raise ConfigError(f"{file}: apiVersion and kind", f"{version} {kind}", f"{API_VERSION} {KIND}")


def deployment_of(file: DeploymentFile, endpoints: tuple[InferenceEndpointConfig, ...]) -> Deployment:
    """What a deployment file means with its manifests read and its defaults filled in."""
    chosen = {
        attribute: getattr(file, attribute)
        for attribute, _ in codec.fields_by_name(DeploymentFile).values()
        if attribute not in ("endpoints", "api_version", "kind") and getattr(file, attribute) is not None
    }
    return Deployment(endpoints=endpoints, **chosen)


def single_document(file: Path) -> Mapping[str, Any]:
    """The one mapping in a file.

    Raises:
        ManifestError: the file can't be read, or holds something else.
    """
    written = read_documents(read_text(str(file)).removeprefix("\ufeff"), str(file))
    documents = [found for document in written for found in objects(document)]
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        raise ManifestError(str(file), None, f"holds {len(documents)} documents; expected one mapping")
    return documents[0].data


def _refuse_unknown_keys(document: Mapping[str, Any]) -> None:
    """Raise for the first key that the deployment file does not have, however deep."""
    for fault in structure.faults(DeploymentFile, document):
        if fault.kind == "unknown":
            meant = f"{fault.rename}, or another of " if fault.rename else "one of "
            got = View(document).get(fault.where)
            raise ConfigError(dotted(fault.where), got, f"{meant}the keys {fault.expected}")
