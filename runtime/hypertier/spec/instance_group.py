"""Nodes of one kind in a HyperPod cluster: what may be said of them, and what cannot be.

The shapes of `AWS::SageMaker::Cluster`, by botocore 1.44's model of SageMaker and CloudFormation's schema.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html
(read 2026-12-01)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypertier.catalog.instance_types import GIB, InstanceType, find_instance_type
from hypertier.catalog.zones import ZONE_ID
from hypertier.errors import ConfigError
from hypertier.spec.keywords import named_fields
from hypertier.spec.lifecycle import LifecycleScript
from hypertier.spec.quantities import parse_bytes

MAX_COUNT = 6758
MAX_INSTANCE_TYPES = 20
MAX_LABELS = 50
MAX_TAINTS = 50
MAX_VOLUME_GIB = 16384
MAX_ROLLBACK_ALARMS = 10
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DEEP_HEALTH_CHECKS = ("InstanceStress", "InstanceConnectivity")
GPU_TAINT = "nvidia.com/gpu"
GROUP_LABEL = "sagemaker.amazonaws.com/instance-group-name"  # which HyperPod gives each node
GROUP_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
GROUP_NAME_FORM = "1 to 63 letters, digits and hyphens, no hyphen at either end"
TRAINING_PLAN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[a-z0-9](-*[a-z0-9]){0,63}"
)
KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]{1,64}")
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_DNS = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY = re.compile(rf"({_DNS}(\.{_DNS})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_KEY_FORM = "a key of Kubernetes, such as team or example.com/team"
_VALUE_FORM = "1 to 63 letters, digits, '-', '_' and '.', in quotes where YAML would read another thing"
_MAX_KEY = 317
_CRON = re.compile(r"cron\(\S+( \S+){5}\)")
_MAX_CRON = 256


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """Keeps pods without a toleration for it off a group's nodes."""

    key: str
    value: str | None = None
    effect: str = "NoSchedule"

    @property
    def blocks(self) -> bool:
        """Whether a pod that does not tolerate it never runs there."""
        return self.effect != "PreferNoSchedule"


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A second volume of each node, at `/opt/sagemaker`: `size` such as `500Gi`.

    Encrypted with a customer key of the cluster's own, or with the one named, whose policy must let it.
    """

    size: str
    kms_key_arn: str | None = None

    @property
    def gib(self) -> int:
        """Its size in GiB, rounded up."""
        return math.ceil(parse_bytes("volume.size", self.size) / GIB)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSchedule:
    """When nodes get a new image, how many at a time, and the alarms that roll it back.

    `cron` is a schedule as SageMaker takes it: `cron(0 3 ? * SUN *)`.
    """

    cron: str
    batch_percent: int = 25
    rollback_alarm_names: tuple[str, ...] = ()


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroup:
    """Nodes of one kind in the HyperPod cluster.

    `instance_types` are tried in their order where `instance_type` is not to be had. A GPU group is tainted
    with `nvidia.com/gpu` unless `taints` says otherwise, so that nothing else lands on the dear nodes; every
    workload of hypertier tolerates it. HyperPod allows no taints together with deep health checks, so a group
    with checks has none. `root_volume_kms_key_arn` encrypts the root volume in place of a key of AWS's.
    """

    name: str
    instance_type: str
    count: int
    instance_types: tuple[str, ...] = ()
    min_count: int | None = None
    availability_zone_id: str | None = None
    training_plan_arn: str | None = None
    spot: bool = False
    volume: Volume | None = None
    root_volume_kms_key_arn: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] | None = None
    deep_health_checks: tuple[str, ...] = ()
    lifecycle: LifecycleScript | None = None
    patch_schedule: PatchSchedule | None = None
    efa_only: bool = False

    def __post_init__(self) -> None:
        self._check_types()
        self._check_counts()
        self._check_capacity()
        self._check_volumes()
        self._check_kubernetes()
        self._check_patches()
        if self.lifecycle is not None and self._is_known(self.lifecycle.source):
            self.lifecycle.check(self._named("lifecycle"))

    @property
    def all_instance_types(self) -> tuple[str, ...]:
        """The types in the order in which they are tried."""
        return (self.instance_type, *(entry for entry in self.instance_types if entry != self.instance_type))

    @property
    def has_gpus(self) -> bool:
        """Whether its nodes have NVIDIA GPUs, as far as the catalog knows the types."""
        return any(node.gpus > 0 for node in self._nodes())

    @property
    def num_efa_interfaces(self) -> int:
        """EFA interfaces of one node, the most among its types."""
        return max((node.efa_interfaces for node in self._nodes()), default=0)

    @property
    def applied_taints(self) -> tuple[Taint, ...]:
        """The taints that its nodes get."""
        if self.taints is not None:
            return self.taints
        if self.has_gpus and not self.deep_health_checks:
            return (Taint(key=GPU_TAINT, value="present"),)
        return ()

    @property
    def is_closed(self) -> bool:
        """Whether pods need a toleration to run there."""
        return any(taint.blocks for taint in self.applied_taints)

    def found_from(self, folder: Path) -> InstanceGroup:
        """The same, its lifecycle script looked for from `folder`, where the deployment file lies.

        Raises:
            ConfigError: it is not there.
        """
        if self.lifecycle is None:
            return self
        return replace(self, lifecycle=self.lifecycle.found_from(folder, self._named("lifecycle")))

    def check_fallbacks(self) -> None:
        """Refuse a further type with less than the first one has, by which engines are planned.

        Raises:
            ConfigError: names the types.
        """
        first = find_instance_type(self.instance_type)
        for node in self._nodes():
            if first is not None and _has_less(node, first):
                gpus = f"{first.gpus} GPUs of {first.gpu_memory_bytes // GIB} GiB, " if first.gpus else ""
                self._require(
                    False,
                    "instance_types",
                    node.name,
                    f"types that have what {first.name} has, by which engines are planned: {gpus}"
                    f"{first.vcpus} vCPUs, {first.memory_bytes // GIB} GiB of memory",
                )

    def _nodes(self) -> list[InstanceType]:
        return [node for node in map(find_instance_type, self.all_instance_types) if node]

    def _named(self, setting: str) -> str:
        """A field as the deployment file calls it; parts below it follow a dot."""
        head, *tail = setting.split("_")
        typed = head + "".join(word[:1].upper() + word[1:] for word in tail)
        return f"instanceGroups.{typed}" if setting == "name" else f"instanceGroups.{self.name}.{typed}"

    def _is_known(self, value: str) -> bool:
        """Whether a text is what it will be; the CDK has texts that are known at deployment alone."""
        return True

    def _require(self, fits: bool, setting: str, got: object, expected: str) -> None:
        if not fits:
            raise ConfigError(self._named(setting), got, expected)

    def _check_types(self) -> None:
        self._require(bool(GROUP_NAME.fullmatch(self.name)), "name", self.name, GROUP_NAME_FORM)
        for setting, types in (
            ("instance_type", (self.instance_type,)),
            ("instance_types", self.instance_types),
        ):
            for instance_type in types:
                self._require(
                    instance_type.startswith("ml."),
                    setting,
                    instance_type,
                    "a SageMaker instance type, which starts with 'ml.', such as ml.p5.48xlarge",
                )
        num_types = len(self.all_instance_types)
        self._require(
            num_types <= MAX_INSTANCE_TYPES,
            "instance_types",
            num_types,
            f"at most {MAX_INSTANCE_TYPES} types",
        )
        self._require(
            not self.efa_only or self.num_efa_interfaces > 0,
            "efa_only",
            self.efa_only,
            "false: this type has no EFA interface",
        )

    def _check_counts(self) -> None:
        self._require(0 <= self.count <= MAX_COUNT, "count", self.count, f"0 to {MAX_COUNT} nodes")
        self._require(
            self.min_count is None or 0 <= self.min_count <= self.count,
            "min_count",
            self.min_count,
            f"0 to {self.count}, the group's count",
        )

    def _check_capacity(self) -> None:
        zone, plan = self.availability_zone_id, self.training_plan_arn
        self._require(
            zone is None or bool(ZONE_ID.fullmatch(zone)),
            "availability_zone_id",
            zone,
            "the id of a zone, the same in every account, such as usw2-az2",
        )
        if plan is None:
            return
        self._require(
            not self._is_known(plan) or bool(TRAINING_PLAN.fullmatch(plan)),
            "training_plan_arn",
            plan,
            "the ARN of a training plan: arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME",
        )
        self._require(
            zone is not None,
            "availability_zone_id",
            None,
            "the id of the zone that the training plan's capacity lies in, such as usw2-az2",
        )
        self._require(
            not self.spot, "spot", self.spot, "false with a training plan, whose capacity is paid for"
        )

    def _check_volumes(self) -> None:
        keys = [("root_volume_kms_key_arn", self.root_volume_kms_key_arn)]
        if self.volume is not None:
            size = parse_bytes(self._named("volume.size"), self.volume.size) / GIB
            self._require(
                0 < size <= MAX_VOLUME_GIB, "volume.size", self.volume.size, f"1Gi to {MAX_VOLUME_GIB}Gi"
            )
            keys.append(("volume.kms_key_arn", self.volume.kms_key_arn))
        for setting, key in keys:
            self._require(
                key is None or not self._is_known(key) or bool(KMS_KEY.fullmatch(key)),
                setting,
                key,
                "the ARN of a KMS key: arn:aws:kms:REGION:ACCOUNT:key/ID",
            )

    def _check_kubernetes(self) -> None:
        self._require(
            len(self.labels) <= MAX_LABELS, "labels", len(self.labels), f"at most {MAX_LABELS} labels"
        )
        for key, value in self.labels.items():
            self._require(_is_key(key), "labels", key, _KEY_FORM)
            self._require(key != GROUP_LABEL, "labels", key, "others: HyperPod gives each node this one")
            self._require(_is_value(value), "labels", {key: value}, _VALUE_FORM)
        taints = self.taints or ()
        self._require(len(taints) <= MAX_TAINTS, "taints", len(taints), f"at most {MAX_TAINTS} taints")
        for number, taint in enumerate(taints):
            at = f"taints.{number}"
            self._require(_is_key(taint.key), f"{at}.key", taint.key, _KEY_FORM)
            self._require(
                taint.value is None or _is_value(taint.value), f"{at}.value", taint.value, _VALUE_FORM
            )
            self._require(
                taint.effect in TAINT_EFFECTS, f"{at}.effect", taint.effect, " or ".join(TAINT_EFFECTS)
            )
        marks = [f"{taint.key}:{taint.effect}" for taint in taints]
        self._require(len(set(marks)) == len(marks), "taints", marks, "each key once with an effect")
        checks = list(self.deep_health_checks)
        for check in checks:
            self._require(
                check in DEEP_HEALTH_CHECKS, "deep_health_checks", check, " or ".join(DEEP_HEALTH_CHECKS)
            )
        self._require(len(set(checks)) == len(checks), "deep_health_checks", checks, "each check once")
        self._require(
            not (checks and taints),
            "deep_health_checks",
            checks,
            "none beside taints: HyperPod cannot check nodes that have taints of yours",
        )

    def _check_patches(self) -> None:
        schedule = self.patch_schedule
        if schedule is None:
            return
        self._require(
            len(schedule.cron) <= _MAX_CRON and bool(_CRON.fullmatch(schedule.cron)),
            "patch_schedule.cron",
            schedule.cron,
            "a schedule of six fields, such as cron(0 3 ? * SUN *)",
        )
        self._require(
            1 <= schedule.batch_percent <= 100,
            "patch_schedule.batch_percent",
            schedule.batch_percent,
            "1 to 100, percent of the nodes",
        )
        alarms = list(schedule.rollback_alarm_names)
        setting = "patch_schedule.rollback_alarm_names"
        self._require(
            len(alarms) <= MAX_ROLLBACK_ALARMS, setting, len(alarms), f"at most {MAX_ROLLBACK_ALARMS} alarms"
        )
        for alarm in alarms:
            self._require(
                len(alarm) <= 255 and bool(alarm.strip()), setting, alarm, "names of alarms, each 1 to 255"
            )


def _has_less(node: InstanceType, first: InstanceType) -> bool:
    return (
        node.gpus < first.gpus
        or node.gpu_memory_bytes < first.gpu_memory_bytes
        or node.vcpus < first.vcpus
        or node.memory_bytes < first.memory_bytes
    )


def _is_key(key: object) -> bool:
    return isinstance(key, str) and len(key) <= _MAX_KEY and bool(_KEY.fullmatch(key))


def _is_value(value: object) -> bool:
    return isinstance(value, str) and bool(_VALUE.fullmatch(value))
