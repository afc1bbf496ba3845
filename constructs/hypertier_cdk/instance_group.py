"""One instance group of a HyperPod cluster, and how CloudFormation takes it."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker

from hypertier.spec.deployment import InstanceGroup

__all__ = ["InstanceGroup", "instance_group_property"]


def instance_group_property(
    group: InstanceGroup,
    *,
    execution_role: iam.IRole,
    subnet: ec2.ISubnet | None,
    security_groups: Sequence[ec2.ISecurityGroup],
) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
    """The group as `AWS::SageMaker::Cluster` takes it; `subnet` puts all its nodes into one zone."""
    return sagemaker.CfnCluster.ClusterInstanceGroupProperty(
        instance_group_name=group.name,
        instance_type=group.instance_type,
        instance_count=group.count,
        execution_role=execution_role.role_arn,
        training_plan_arn=group.training_plan_arn,
        override_vpc_config=sagemaker.CfnCluster.VpcConfigProperty(
            security_group_ids=[security_group.security_group_id for security_group in security_groups],
            subnets=[subnet.subnet_id],
        )
        if subnet
        else None,
    )
