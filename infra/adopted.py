"""The stack in front of a cluster that exists already: what lets manifests in, and nothing of the cluster."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment
from hypertier_cdk import AdoptedCluster, Network
from infra.controllers import add_controllers
from infra.operator import add_operator


class AdoptedStack(cdk.Stack):
    """The deployment's existing cluster and its network, as they are; neither is changed nor deleted.

    Attributes:
        operator: AWS's inference operator, or None where hypertier serves itself.
        controllers: what endpoints need in the cluster beside it.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, **options: Any
    ) -> None:
        super().__init__(scope, construct_id, description=f"{deployment.name}: adopted cluster", **options)
        existing, told = deployment.cluster.existing, deployment.cluster.attributes
        if existing is None or told is None:
            raise ConfigError(
                "cluster.attributes",
                None,
                "what AWS says of the existing cluster: its arn, eksClusterName, eksSecurityGroupId, "
                "nodeSecurityGroupId, vpcId, availabilityZones and privateSubnetIds",
            )
        vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=told.vpc_id,
            availability_zones=list(told.availability_zones),
            private_subnet_ids=list(told.private_subnet_ids),
        )
        for subnet in vpc.private_subnets:
            cdk.Annotations.of(subnet).acknowledge_warning(
                "@aws-cdk/aws-ec2:noSubnetRouteTableId", "no route is added to a network that exists already"
            )
        self.network = Network(
            self,
            "Network",
            existing=vpc,
            existing_cidrs=told.vpc_cidrs,
            closed=deployment.cluster.closed_network,
        )
        self.cluster = AdoptedCluster(
            self,
            "Cluster",
            network=self.network,
            name=existing,
            cluster_arn=told.arn,
            eks_cluster_name=told.eks_cluster_name,
            kubernetes_version=deployment.cluster.kubernetes_version,
            eks_security_group_id=told.eks_security_group_id,
            node_security_group_id=told.node_security_group_id,
            oidc_provider_arn=told.oidc_provider_arn,
        )
        self.operator = add_operator(self, deployment, self.cluster)
        self.controllers = add_controllers(self, deployment, self.cluster)
