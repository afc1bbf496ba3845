"""An instance group of a HyperPod cluster as CloudFormation takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker

from hypertier.spec import instance_group as spec
from hypertier.spec.instance_group import PatchSchedule
from hypertier.spec.keywords import named_fields
from hypertier_cdk.arguments import check_fields

# Addresses that the pods of one node take from its subnet, on the safe side: the VPC CNI keeps a network
# interface's worth of them, 50 on the largest types.
POD_ADDRESSES_PER_NODE = 50


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroup(spec.InstanceGroup):
    """Nodes of one kind, as `hypertier.spec.instance_group` says; ARNs may be tokens of the CDK."""

    def __post_init__(self) -> None:
        check_fields(self, f"instance_groups.{self.name}")
        spec.InstanceGroup.__post_init__(self)  # no super(): slots make a class of another name

    @classmethod
    def of(cls, group: spec.InstanceGroup) -> InstanceGroup:
        """The group of a deployment file, which says the same."""
        if isinstance(group, cls):
            return group
        return cls(**{field.name: getattr(group, field.name) for field in fields(spec.InstanceGroup)})

    @property
    def num_addresses(self) -> int:
        """Addresses that all nodes of the group take from their subnets, on the safe side."""
        interfaces = 1 if self.efa_only else max(self.num_efa_interfaces, 1)
        return self.count * (interfaces + POD_ADDRESSES_PER_NODE)

    @property
    def volume_key_arns(self) -> tuple[str, ...]:
        """The keys of others that its volumes are encrypted with."""
        keys = (self.volume and self.volume.kms_key_arn, self.root_volume_kms_key_arn)
        return tuple(key for key in keys if key)

    @property
    def needs_volume_key(self) -> bool:
        """Whether the cluster must have a key for its volumes."""
        return self.volume is not None and self.volume.kms_key_arn is None

    def to_property(
        self,
        *,
        execution_role: iam.IRole,
        subnet: ec2.ISubnet | None,
        security_group_ids: Sequence[str],
        volume_key: kms.IKey | None = None,
    ) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
        """The group as `AWS::SageMaker::Cluster` takes it; `subnet` puts all its nodes into one zone.

        A volume without a key of its own is encrypted with `volume_key`.
        """
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
                security_group_ids=list(security_group_ids),
                subnets=[subnet.subnet_id],
            )
        if self.spot:
            optional["capacity_requirements"] = cluster.ClusterCapacityRequirementsProperty(spot={})
        if self.labels or self.applied_taints:
            optional["kubernetes_config"] = cluster.ClusterKubernetesConfigProperty(
                labels=dict(self.labels) or None,
                taints=[
                    cluster.ClusterKubernetesTaintProperty(
                        key=taint.key, value=taint.value, effect=taint.effect
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
            instance_storage_configs=self._volumes(volume_key) or None,
            **optional,
        )

    def _named(self, setting: str) -> str:
        """A field as the constructor calls it."""
        return f"instance_groups.{self.name}.{setting}"

    def _is_known(self, value: str) -> bool:
        return not cdk.Token.is_unresolved(value)

    def _volumes(
        self, key: kms.IKey | None
    ) -> list[sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty]:
        """The second volume, and the root one where its key is not AWS's: that has no size of its own.

        https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterEbsVolumeConfig.html
        (read 2026-12-01)
        """
        cluster = sagemaker.CfnCluster
        volumes = []
        if self.root_volume_kms_key_arn:
            volumes.append(
                cluster.ClusterEbsVolumeConfigProperty(
                    root_volume=True, volume_kms_key_id=self.root_volume_kms_key_arn
                )
            )
        if self.volume is not None:
            own = key.key_arn if key else None
            volumes.append(
                cluster.ClusterEbsVolumeConfigProperty(
                    volume_size_in_gb=self.volume.gib, volume_kms_key_id=self.volume.kms_key_arn or own
                )
            )
        return [cluster.ClusterInstanceStorageConfigProperty(ebs_volume_config=volume) for volume in volumes]


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
