"""One instance group of a HyperPod cluster: what may be said of it, and how CloudFormation takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker

from hypertier.catalog.instance_types import find_instance_type
from hypertier.errors import ConfigError
from hypertier.spec import deployment
from hypertier.spec.lifecycle import LifecycleScript
from hypertier_cdk.arguments import MAY_BE_EMPTY, check_fields

GPU_TAINT = "nvidia.com/gpu"
# The shapes of AWS::SageMaker::Cluster, by its schema in CloudFormation's registry, as cfn-lint 1.58 has it.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-sagemaker-cluster.html
MAX_COUNT = 6758
MAX_INSTANCE_TYPES = 20
MAX_LABELS = 50
MAX_TAINTS = 50
MAX_VOLUME_GIB = 16384
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DEEP_HEALTH_CHECKS = ("InstanceStress", "InstanceConnectivity")
# Addresses that the pods of one node take from its subnet, on the safe side: the VPC CNI keeps a network
# interface's worth of them, 50 on the largest types.
POD_ADDRESSES_PER_NODE = 50
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_TRAINING_PLAN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[a-z0-9](-*[a-z0-9]){0,63}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """Keeps pods without a toleration for it off a group's nodes."""

    key: str
    value: str = field(default="", metadata={MAY_BE_EMPTY: True})
    effect: str = "NoSchedule"

    def __post_init__(self) -> None:
        check_fields(self, "taint")
        if self.effect not in TAINT_EFFECTS:
            raise ConfigError("taint.effect", self.effect, " or ".join(TAINT_EFFECTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSchedule:
    """When nodes get a new image, how many at a time, and the alarms that roll it back.

    `cron` is a schedule as SageMaker takes it: `cron(0 3 ? * SUN *)`.
    """

    cron: str
    batch_percent: int = 25
    rollback_alarm_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, "patch_schedule")
        if not re.fullmatch(r"cron\([^()]+\)", self.cron):
            raise ConfigError("patch_schedule.cron", self.cron, "a schedule such as cron(0 3 ? * SUN *)")
        if not 1 <= self.batch_percent <= 100:
            raise ConfigError(
                "patch_schedule.batch_percent", self.batch_percent, "1 to 100, percent of the nodes"
            )
        if len(self.rollback_alarm_names) > 10:
            raise ConfigError(
                "patch_schedule.rollback_alarm_names", len(self.rollback_alarm_names), "at most 10 alarms"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroup:
    """Nodes of one kind.

    Several `instance_types` are tried in their order. A GPU group is tainted with `nvidia.com/gpu` unless
    `taints` says otherwise, so that nothing else lands on the dear nodes; every workload of hypertier
    tolerates it. HyperPod allows no taints together with deep health checks, so a group with checks has none.
    """

    name: str
    instance_type: str
    count: int
    instance_types: tuple[str, ...] = ()
    min_count: int | None = None
    availability_zone_id: str | None = None
    training_plan_arn: str | None = None
    spot: bool = False
    volume_gib: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] | None = None
    deep_health_checks: tuple[str, ...] = ()
    lifecycle: LifecycleScript | None = None
    patch_schedule: PatchSchedule | None = None
    efa_only: bool = False

    def __post_init__(self) -> None:
        check_fields(self, f"instance_groups.{self.name}")
        self._check_types()
        self._check_counts()
        self._check_capacity()
        self._check_kubernetes()
        if self.lifecycle is not None and not cdk.Token.is_unresolved(self.lifecycle.source):
            self.lifecycle.check(f"instance_groups.{self.name}.lifecycle")

    @classmethod
    def of(cls, group: InstanceGroup | deployment.InstanceGroup) -> InstanceGroup:
        """The group of a deployment file with the defaults for what the file does not say."""
        if isinstance(group, cls):
            return group
        return cls(
            name=group.name,
            instance_type=group.instance_type,
            count=group.count,
            availability_zone_id=group.availability_zone_id,
            training_plan_arn=group.training_plan_arn,
            lifecycle=group.lifecycle,
        )

    @property
    def all_instance_types(self) -> tuple[str, ...]:
        """The types in the order in which they are tried."""
        return (self.instance_type, *(entry for entry in self.instance_types if entry != self.instance_type))

    @property
    def has_gpus(self) -> bool:
        """Whether its nodes have NVIDIA GPUs, as far as the catalog knows the types."""
        return any(node.gpus > 0 for node in map(find_instance_type, self.all_instance_types) if node)

    @property
    def num_efa_interfaces(self) -> int:
        """EFA interfaces of one node, the most among its types."""
        nodes = map(find_instance_type, self.all_instance_types)
        return max((node.efa_interfaces for node in nodes if node), default=0)

    @property
    def num_addresses(self) -> int:
        """Addresses that all nodes of the group take from their subnets, on the safe side."""
        interfaces = 1 if self.efa_only else max(self.num_efa_interfaces, 1)
        return self.count * (interfaces + POD_ADDRESSES_PER_NODE)

    @property
    def applied_taints(self) -> tuple[Taint, ...]:
        """The taints that its nodes get."""
        if self.taints is not None:
            return self.taints
        if self.has_gpus and not self.deep_health_checks:
            return (Taint(key=GPU_TAINT, value="present"),)
        return ()

    def to_property(
        self,
        *,
        execution_role: iam.IRole,
        subnet: ec2.ISubnet | None,
        security_groups: Sequence[ec2.ISecurityGroup],
        volume_key: kms.IKey | None = None,
    ) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
        """The group as `AWS::SageMaker::Cluster` takes it; `subnet` puts all its nodes into one zone."""
        cluster = sagemaker.CfnCluster
        types = self.all_instance_types
        optional: dict[str, Any] = {}
        if len(types) == 1:
            optional["instance_type"] = types[0]
        else:
            optional["instance_requirements"] = cluster.InstanceRequirementsProperty(
                instance_types=list(types)
            )
        if subnet:
            optional["override_vpc_config"] = cluster.VpcConfigProperty(
                security_group_ids=[group.security_group_id for group in security_groups],
                subnets=[subnet.subnet_id],
            )
        if self.spot:
            optional["capacity_requirements"] = cluster.ClusterCapacityRequirementsProperty(spot={})
        if self.volume_gib is not None:
            optional["instance_storage_configs"] = [
                cluster.ClusterInstanceStorageConfigProperty(
                    ebs_volume_config=cluster.ClusterEbsVolumeConfigProperty(
                        volume_size_in_gb=self.volume_gib,
                        volume_kms_key_id=volume_key.key_arn if volume_key else None,
                    )
                )
            ]
        if self.labels or self.applied_taints:
            optional["kubernetes_config"] = cluster.ClusterKubernetesConfigProperty(
                labels=dict(self.labels) or None,
                taints=[
                    cluster.ClusterKubernetesTaintProperty(
                        key=taint.key, value=taint.value or None, effect=taint.effect
                    )
                    for taint in self.applied_taints
                ]
                or None,
            )
        if self.lifecycle:
            optional["life_cycle_config"] = cluster.ClusterLifeCycleConfigProperty(
                source_s3_uri=self.lifecycle.source, on_init_complete=self.lifecycle.file
            )
        if self.patch_schedule:
            optional["scheduled_update_config"] = _scheduled_update(self.patch_schedule)
        if self.efa_only:
            optional["network_interface"] = cluster.ClusterNetworkInterfaceProperty(interface_type="efa-only")
        return cluster.ClusterInstanceGroupProperty(
            instance_group_name=self.name,
            instance_count=self.count,
            min_instance_count=self.min_count,
            execution_role=execution_role.role_arn,
            training_plan_arn=self.training_plan_arn,
            on_start_deep_health_checks=list(self.deep_health_checks) or None,
            **optional,
        )

    def _require(self, fits: bool, setting: str, got: object, expected: str) -> None:
        if not fits:
            raise ConfigError(f"instance_groups.{self.name}.{setting}", got, expected)

    def _check_types(self) -> None:
        self._require(
            bool(_NAME.fullmatch(self.name)),
            "name",
            self.name,
            "1 to 63 letters, digits and hyphens, no hyphen at either end",
        )
        for instance_type in self.all_instance_types:
            self._require(
                instance_type.startswith("ml."),
                "instance_type",
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
            "False: this type has no EFA interface",
        )

    def _check_counts(self) -> None:
        self._require(0 <= self.count <= MAX_COUNT, "count", self.count, f"0 to {MAX_COUNT} nodes")
        self._require(
            self.min_count is None or 0 <= self.min_count <= self.count,
            "min_count",
            self.min_count,
            f"0 to {self.count}, the group's count",
        )
        self._require(
            self.volume_gib is None or 1 <= self.volume_gib <= MAX_VOLUME_GIB,
            "volume_gib",
            self.volume_gib,
            f"1 to {MAX_VOLUME_GIB} GiB",
        )

    def _check_capacity(self) -> None:
        plan = self.training_plan_arn
        if plan is None:
            return
        self._require(
            cdk.Token.is_unresolved(plan) or bool(_TRAINING_PLAN.fullmatch(plan)),
            "training_plan_arn",
            plan,
            "the ARN of a training plan: arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME",
        )
        self._require(
            self.availability_zone_id is not None,
            "availability_zone_id",
            None,
            "the id of the zone that the training plan's capacity lies in, such as usw2-az2",
        )
        self._require(
            not self.spot, "spot", self.spot, "False with a training plan, whose capacity is paid for"
        )

    def _check_kubernetes(self) -> None:
        taints = self.taints or ()
        self._require(
            len(self.labels) <= MAX_LABELS, "labels", len(self.labels), f"at most {MAX_LABELS} labels"
        )
        self._require(len(taints) <= MAX_TAINTS, "taints", len(taints), f"at most {MAX_TAINTS} taints")
        for check in self.deep_health_checks:
            self._require(
                check in DEEP_HEALTH_CHECKS, "deep_health_checks", check, " or ".join(DEEP_HEALTH_CHECKS)
            )
        self._require(
            not (self.deep_health_checks and taints),
            "deep_health_checks",
            list(self.deep_health_checks),
            "none beside taints: HyperPod cannot check nodes that have taints of yours",
        )


def _scheduled_update(schedule: PatchSchedule) -> sagemaker.CfnCluster.ScheduledUpdateConfigProperty:
    cluster = sagemaker.CfnCluster
    batch = cluster.CapacitySizeConfigProperty(type="CAPACITY_PERCENTAGE", value=schedule.batch_percent)
    return cluster.ScheduledUpdateConfigProperty(
        schedule_expression=schedule.cron,
        deployment_config=cluster.DeploymentConfigProperty(
            rolling_update_policy=cluster.RollingUpdatePolicyProperty(
                maximum_batch_size=batch, rollback_maximum_batch_size=batch
            ),
            auto_rollback_configuration=[
                cluster.AlarmDetailsProperty(alarm_name=name) for name in schedule.rollback_alarm_names
            ]
            or None,
        ),
    )
