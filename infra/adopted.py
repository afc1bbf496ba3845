"""The stack in front of a cluster that exists already: what lets manifests in, and nothing of the cluster."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment
from hypertier_cdk import EksCluster, HyperPodCluster, Network
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
        self.network = Network.from_vpc_attributes(
            self,
            "Network",
            vpc_id=told.vpc_id,
            vpc_cidrs=told.vpc_cidrs,
            availability_zones=told.availability_zones,
            private_subnet_ids=told.private_subnet_ids,
            closed=deployment.cluster.closed_network,
        )
        eks_cluster = EksCluster.from_cluster_attributes(
            self,
            "Eks",
            network=self.network,
            cluster_name=told.eks_cluster_name,
            kubernetes_version=deployment.cluster.kubernetes_version,
            security_group_id=told.eks_security_group_id,
            oidc_provider_arn=told.oidc_provider_arn,
            existing_addons=told.addons,
            existing_namespaces=told.namespaces,
        )
        self.cluster = HyperPodCluster.from_cluster_attributes(
            self,
            "Cluster",
            network=self.network,
            eks_cluster=eks_cluster,
            cluster_name=existing,
            cluster_arn=told.arn,
            node_security_group_id=told.node_security_group_id,
        )
        self.operator = add_operator(self, deployment, self.cluster)
        self.controllers = add_controllers(self, deployment, self.cluster)
