"""An instance group of a HyperPod cluster as CloudFormation takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from hypertier.spec import instance_group as spec
from hypertier.spec.instance_group import PatchSchedule
from hypertier.spec.keywords import named_fields
from hypertier_cdk.arguments import check_fields


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
    ) -> dict[str, Any]:
        """The group as `AWS::SageMaker::Cluster` takes it; `subnet` puts all its nodes into one zone.

        A volume without a key of its own is encrypted with `volume_key`.
        """
        types = self.all_instance_types
        written: dict[str, Any] = {
            "InstanceGroupName": self.name,
            "InstanceCount": self.count,
            "MinInstanceCount": self.min_count,
            "ExecutionRole": execution_role.role_arn,
            "TrainingPlanArn": self.training_plan_arn,
            "OnStartDeepHealthChecks": list(self.deep_health_checks) or None,
            "InstanceStorageConfigs": self._volumes(volume_key) or None,
        }
        if len(types) == 1:
            written["InstanceType"] = types[0]
        else:
            written["InstanceRequirements"] = {"InstanceTypes": list(types)}
        if subnet:
            written["OverrideVpcConfig"] = {
                "SecurityGroupIds": list(security_group_ids),
                "Subnets": [subnet.subnet_id],
            }
        if self.spot:
            written["CapacityRequirements"] = {"Spot": {}}
        if self.labels or self.applied_taints:
            written["KubernetesConfig"] = _set(
                {
                    "Labels": dict(self.labels) or None,
                    "Taints": [
                        _set({"Key": taint.key, "Value": taint.value, "Effect": taint.effect})
                        for taint in self.applied_taints
                    ]
                    or None,
                }
            )
        if self.lifecycle:
            written["LifeCycleConfig"] = {
                "SourceS3Uri": self.lifecycle.source,
                "OnInitComplete": self.lifecycle.file,
            }
        if self.patch_schedule:
            written["ScheduledUpdateConfig"] = _scheduled_update(self.patch_schedule)
        if self.efa_only:
            written["NetworkInterface"] = {"InterfaceType": "efa-only"}
        return _set(written)

    def _named(self, setting: str) -> str:
        """A field as the constructor calls it."""
        return f"instance_groups.{self.name}.{setting}"

    def _is_known(self, value: str) -> bool:
        return not cdk.Token.is_unresolved(value)

    def _volumes(self, key: kms.IKey | None) -> list[dict[str, Any]]:
        """The second volume, and the root one where its key is not AWS's: that has no size of its own.

        https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterEbsVolumeConfig.html
        (read 2026-12-01)
        """
        volumes: list[dict[str, Any]] = []
        if self.root_volume_kms_key_arn:
            volumes.append({"RootVolume": True, "VolumeKmsKeyId": self.root_volume_kms_key_arn})
        if self.volume is not None:
            own = key.key_arn if key else None
            encrypted = {"VolumeKmsKeyId": self.volume.kms_key_arn or own}
            volumes.append(_set({"VolumeSizeInGB": self.volume.gib, **encrypted}))
        return [{"EbsVolumeConfig": volume} for volume in volumes]


def _scheduled_update(schedule: PatchSchedule) -> dict[str, Any]:
    batch = {"Type": "CAPACITY_PERCENTAGE", "Value": schedule.batch_percent}
    alarms = [{"AlarmName": name} for name in schedule.rollback_alarm_names]
    return {
        "ScheduleExpression": schedule.cron,
        "DeploymentConfig": {
            "RollingUpdatePolicy": {"MaximumBatchSize": batch, "RollbackMaximumBatchSize": batch},
            **({"AutoRollbackConfiguration": alarms} if alarms else {}),
        },
    }


def _set(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that have a value."""
    return {name: value for name, value in properties.items() if value is not None}
