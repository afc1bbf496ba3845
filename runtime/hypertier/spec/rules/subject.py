"""What a rule looks at: one document, and what is known around it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.arguments import PLACES, find_option
from hypertier.spec.deployment import DeploymentFile, default_groups
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.jumpstart import JumpStartModel
from hypertier.spec.scaling import Scaling
from hypertier.spec.structure import Fault, faults
from hypertier.spec.tree import Document, Path, View, path

Version = tuple[int, ...]

GPU = "nvidia.com/gpu"
GROUPS = path("instanceGroups")
LIMITS = path("spec.worker.resources.limits")
REQUESTS = path("spec.worker.resources.requests")
WORKER_ENVIRONMENT = path("spec.worker.environmentVariables")
JUMPSTART_ENVIRONMENT = path("spec.environmentVariables")

TYPES: dict[str, type] = {
    "InferenceEndpointConfig": InferenceEndpointConfig,
    "JumpStartModel": JumpStartModel,
    "Deployment": DeploymentFile,
}

VLLM = "vllm"
# Part of an image's name -> the engine inside.
_ENGINES = (
    ("sglang", "sglang"),
    ("text-generation-inference", "tgi"),
    ("tgi-inference", "tgi"),
    ("djl-inference", "lmi"),
    ("/lmi", "lmi"),
    ("tritonserver", "triton"),
    ("vllm", VLLM),
)
_ECR = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known beside a manifest; None is not known.

    `deployment` is the deployment file that names the manifest; `siblings` are the other documents that
    were given with it.
    """

    deployment: View | None = None
    operator_version: Version | None = None
    siblings: Sequence[View] = ()

    @property
    def serving(self) -> str | None:
        """`selfhosted` or `operator` where a deployment file says so."""
        return None if self.deployment is None else self.deployment.text("serving") or "selfhosted"

    @property
    def region(self) -> str | None:
        """The deployment's region, or None without a deployment file."""
        return None if self.deployment is None else self.deployment.text("region") or "us-west-2"


class Subject:
    """A document under the rules, with the answers that many rules ask for.

    Of a deployment file, `endpoints` are the manifests that it names, and `missing_endpoints` says by their
    index what is wrong with those that could not be had; `missing_scripts` says it of groups' scripts.
    `num_documents` are those of its file.
    """

    def __init__(self, kind: str, document: Document, around: Surroundings | None = None) -> None:
        self.kind = kind
        self.document = document
        self.manifest = document.view
        self.around = around or Surroundings()
        self.endpoints: Sequence[Subject] = ()
        self.missing_endpoints: Mapping[int, str] = {}
        self.missing_scripts: Mapping[int, ConfigError] = {}
        self.num_documents = 1

    @cached_property
    def faults(self) -> list[Fault]:
        """What the document's type alone says about it; empty for kinds without one."""
        cls = TYPES.get(self.kind)
        return [] if cls is None else list(faults(cls, self.manifest.data))

    def without(self, fields: Collection[Path]) -> Subject:
        """The same, as if these fields were not written; they stand in no list."""
        if not fields:
            return self
        rest = copy(self)
        for name, value in vars(type(self)).items():
            if isinstance(value, cached_property):
                rest.__dict__.pop(name, None)
        rest.document = replace(self.document, data=_without(self.document.data, (), fields))
        rest.manifest = rest.document.view
        return rest

    # The container

    @cached_property
    def image(self) -> str:
        """The engine's image, or an empty text."""
        return self.manifest.text("spec.worker.image") or ""

    @cached_property
    def engine(self) -> str | None:
        """`vllm`, `sglang`, `tgi`, `lmi`, `triton` by the image's name; None for an image of one's own."""
        name = self.image.lower()
        return next((engine for part, engine in _ENGINES if part in name), None)

    @cached_property
    def image_tag(self) -> str | None:
        """The image's tag, or None where it has none."""
        name = self.image.rpartition("/")[2]
        head, colon, tag = name.partition("@")[0].partition(":")
        return tag if head and colon else None

    @cached_property
    def image_region(self) -> str | None:
        """The region of the ECR registry that the image comes from, or None for another registry."""
        match = _ECR.match(self.image)
        return match["region"] if match else None

    @property
    def runs_another_image(self) -> bool:
        """Whether engines run an image that the deployment names, and not the manifest's."""
        deployment = self.around.deployment
        return not self.by_operator and deployment is not None and bool(deployment.get("images.engine"))

    @property
    def is_aws_container(self) -> bool:
        """Whether the image is one of AWS's deep learning containers, by their account or public gallery."""
        return bool(re.match(r"763104351884\.dkr\.ecr\.", self.image)) or (
            "public.ecr.aws/deep-learning-containers" in self.image
        )

    @cached_property
    def arguments(self) -> list[str]:
        """The container's command and arguments in one list."""
        return [*self.manifest.texts("spec.worker.command"), *self.manifest.texts("spec.worker.args")]

    def engine_words(self) -> Iterator[tuple[Path, str]]:
        """Each word of the lists that may hold arguments for engines, and where it stands."""
        for where in map(path, ("spec.worker.command", *PLACES)):
            for index, word in enumerate(self.manifest.texts(where)):
                yield (*where, index), word

    def argument(self, *names: str) -> str | None:
        """The value of `--name value` or `--name=value` among the arguments; the last one wins."""
        found = self.argument_place(*names)
        return None if found is None else found[1]

    def argument_place(self, *names: str) -> tuple[Path, str] | None:
        """Where an argument's value stands, and the value; for `--name=value` the value is the tail."""
        result = None
        for field in ("command", "args"):
            where = path("spec.worker", field)
            found = find_option(self.manifest.texts(where), *names)
            if found is not None:
                result = ((*where, found[0]), found[1])
        return result

    @cached_property
    def environment_path(self) -> Path:
        """Where this kind keeps its engine's environment."""
        return JUMPSTART_ENVIRONMENT if self.kind == "JumpStartModel" else WORKER_ENVIRONMENT

    @cached_property
    def environment(self) -> dict[str, tuple[int, Mapping[str, Any]]]:
        """Environment variable -> its index in the list and its entry."""
        return {
            name: (index, entry)
            for index, entry in self.manifest.mappings(self.environment_path)
            if isinstance(name := entry.get("name"), str)
        }

    def environment_value(self, name: str) -> str | None:
        """The plain value of a variable, or None."""
        entry = self.environment.get(name)
        value = entry[1].get("value") if entry else None
        return None if value is None else str(value)

    def with_variable(self, name: str, value: str) -> list[Any]:
        """The environment list with one variable more."""
        return [*self.manifest.items(self.environment_path), {"name": name, "value": value}]

    @cached_property
    def scaling(self) -> Scaling | None:
        """The bounds that the deployment sets and hypertier holds; None where there are none to be read."""
        if self.around.deployment is None or self.by_operator:
            return None
        with suppress(ConfigError):
            return codec.decode(Scaling, self.around.deployment.mapping("scaling") or {}, "", [])
        return None

    # The machine

    @cached_property
    def instance_types(self) -> list[str]:
        """The instance types asked for, in order."""
        one = self.manifest.text("spec.instanceType") or self.manifest.text("spec.server.instanceType")
        if one:
            return [one]
        return [entry for entry in self.manifest.items("spec.instanceTypes") if isinstance(entry, str)]

    @cached_property
    def gpus(self) -> int | None:
        """GPUs of one pod by its limit, else by its request; None where neither is a whole number."""
        for where in (LIMITS, REQUESTS):
            value = self.manifest.get((*where, GPU))
            if isinstance(value, int) and not isinstance(value, bool):
                return value if value >= 0 else None
            if isinstance(value, str) and small_whole(value) is not None:
                return small_whole(value)
        return None

    # Cache and routing

    @cached_property
    def has_l1(self) -> bool:
        """L1 is on wherever there is a kvCacheSpec that does not say otherwise."""
        return (
            self.manifest.has("spec.kvCacheSpec")
            and self.manifest.flag("spec.kvCacheSpec.enableL1Cache") is not False
        )

    @cached_property
    def has_l2(self) -> bool:
        """L2 is on only where the manifest says so."""
        return self.manifest.flag("spec.kvCacheSpec.enableL2Cache") is True

    @cached_property
    def l2_backend(self) -> str | None:
        """The backend in force, lower case; None while L2 is off."""
        backend = self.manifest.text("spec.kvCacheSpec.l2CacheSpec.l2CacheBackend")
        return backend.lower() if backend and self.has_l2 else None

    @cached_property
    def has_routing(self) -> bool:
        """Whether intelligent routing is on."""
        return self.manifest.flag("spec.intelligentRoutingSpec.enabled") is True

    @cached_property
    def strategy(self) -> str | None:
        """The routing strategy in force, `prefixaware` by default; None while routing is off."""
        if not self.has_routing:
            return None
        return self.manifest.text("spec.intelligentRoutingSpec.routingStrategy") or "prefixaware"

    @cached_property
    def max_replicas(self) -> int:
        """The most engine pods that this manifest leads to."""
        if self.manifest.has("spec.autoScalingSpec"):
            return self.manifest.whole("spec.autoScalingSpec.maxReplicaCount") or 5
        replicas = self.manifest.whole("spec.replicas")
        return 1 if replicas is None else replicas

    # Versions

    @property
    def by_operator(self) -> bool:
        """Whether AWS's operator serves it, which it does unless a deployment says otherwise."""
        return self.around.serving != "selfhosted"


def _without(data: Any, where: Path, fields: Collection[Path]) -> Any:
    if not isinstance(data, dict):
        return data
    kept = {key: (*where, key) for key in data if (*where, key) not in fields}
    return {key: _without(data[key], below, fields) for key, below in kept.items()}


def small_whole(text: str | None) -> int | None:
    """A whole number of at most nine digits, or None: counts, sizes and lengths of real deployments."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else None


def parse_version(text: str) -> Version | None:
    """`v0.19.1` and `0.19.1-gpu` are (0, 19, 1); None where no version stands in front."""
    match = re.match(r"v?([0-9]{1,6}(?:\.[0-9]{1,6}){0,5})", text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def written_groups(deployment: View) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The groups as they are written, or else the default ones as they would be."""
    if deployment.get(GROUPS) is None:
        yield from enumerate(map(codec.encode, default_groups()))
    yield from deployment.mappings(GROUPS)


def known_groups(deployment: View) -> list[InstanceGroup]:
    """All groups, or none where one of them can't be read: it may be the one that somebody needs."""
    groups = [group for _, group in read_groups(deployment)]
    is_whole = len(groups) == len(deployment.items(GROUPS) or groups)
    return groups if is_whole else []


def read_groups(deployment: View) -> Iterator[tuple[int, InstanceGroup]]:
    """Those of them that can be; what is wrong with others the rule `setting` finds."""
    for index, entry in written_groups(deployment):
        with suppress(ConfigError):
            group = codec.decode(InstanceGroup, dict(entry), "", [])
            if group is not None:
                yield index, group
