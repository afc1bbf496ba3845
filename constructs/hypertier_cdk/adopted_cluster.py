"""A HyperPod cluster that exists already: workloads come onto it, and nothing of it is changed or deleted."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from hypertier.errors import ConfigError
from hypertier.spec.cluster import CLUSTER_ARN
from hypertier_cdk.addons import ClusterAddons
from hypertier_cdk.adopted_eks import EksCluster
from hypertier_cdk.cluster_base import ClusterBase
from hypertier_cdk.network import Network


class AdoptedCluster(ClusterBase):
    """What `HyperPodCluster.from_cluster_attributes` gives.

    The EKS cluster must have the Pod Identity agent. `nodes_ready` is at once: the nodes are there.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        cluster_name: str,
        cluster_arn: str,
        eks_cluster: EksCluster,
        node_security_group_id: str,
    ) -> None:
        super().__init__(scope, construct_id)
        if not cdk.Token.is_unresolved(cluster_arn) and not CLUSTER_ARN.fullmatch(cluster_arn):
            raise ConfigError(
                "cluster_arn",
                cluster_arn,
                "the ARN of a HyperPod cluster, which ends in its id, not its name: see `aws sagemaker "
                f"describe-cluster --cluster-name {cluster_name}`",
            )
        self.network = network
        self.functions_inside = network.closed
        self.cluster_name = cluster_name
        self.cluster_arn = cluster_arn
        self.node_security_group = ec2.SecurityGroup.from_security_group_id(
            self, "Nodes", node_security_group_id, mutable=False
        )
        self.adopt(eks_cluster)
        self.addons = ClusterAddons(
            self, "Addons", cluster=self.eks_cluster, existing=eks_cluster.existing_addons, adopted=True
        )
        self.nodes_ready = eks_cluster.ready
