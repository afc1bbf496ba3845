"""The stack in front of a cluster that exists already: what lets manifests in, and nothing of the cluster."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment
from hypertier_cdk import HyperPodCluster
from infra.controllers import add_controllers
from infra.existing import existing_eks, existing_network
from infra.operator import add_operator


class AdoptedStack(cdk.Stack):
    """The deployment's existing cluster and its network, as they are; neither is changed nor deleted.

    Attributes:
        operator_ready: what endpoints of AWS's operator wait for; None where hypertier serves itself.
        controllers: what endpoints need in the cluster beside it.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, **options: Any
    ) -> None:
        super().__init__(scope, construct_id, description=f"{deployment.name}: adopted cluster", **options)
        existing, told = deployment.cluster.existing, deployment.cluster.attributes
        if existing is None or told is None or told.arn is None or told.node_security_group_id is None:
            raise ConfigError(
                "cluster.attributes",
                None,
                "what AWS says of the existing cluster: its arn, eksClusterName, eksSecurityGroupId, "
                "nodeSecurityGroupId, vpcId, availabilityZones and privateSubnetIds",
            )
        self.network = existing_network(self, deployment, told)
        eks_cluster = existing_eks(self, deployment, told, self.network)
        assert eks_cluster is not None  # an arn is told beside the EKS cluster alone
        self.cluster = HyperPodCluster.from_cluster_attributes(
            self,
            "Cluster",
            network=self.network,
            eks_cluster=eks_cluster,
            cluster_name=existing,
            cluster_arn=told.arn,
            node_security_group_id=told.node_security_group_id,
        )
        self.operator_ready = add_operator(self, deployment, self.cluster)
        self.controllers = add_controllers(self, deployment, self.cluster)
