"""A HyperPod cluster that exists already: workloads come onto it, and nothing of it is changed or deleted."""

from __future__ import annotations

import re
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from hypertier.errors import ConfigError
from hypertier_cdk.addons import ClusterAddons
from hypertier_cdk.arguments import checked
from hypertier_cdk.cluster_base import ClusterBase
from hypertier_cdk.eks import kubectl_layer
from hypertier_cdk.nag import accept_what_cdk_builds
from hypertier_cdk.network import Network

_CLUSTER_ARN = re.compile(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:cluster/[a-z0-9]{12}")


class AdoptedCluster(ClusterBase):
    """The HyperPod cluster `name` on the EKS cluster `eks_cluster_name`, both as they are.

    The EKS cluster must take access entries (authentication mode API or API_AND_CONFIG_MAP) and have the Pod
    Identity agent. What is made here is a function that applies manifests, and its access entry.
    `oidc_provider_arn` is needed by what mounts S3 buckets or brings AWS's operator. `nodes_ready` is at
    once: the nodes are there.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        name: str,
        cluster_arn: str,
        eks_cluster_name: str,
        kubernetes_version: str,
        eks_security_group_id: str,
        node_security_group_id: str,
        oidc_provider_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if not cdk.Token.is_unresolved(cluster_arn) and not _CLUSTER_ARN.fullmatch(cluster_arn):
            raise ConfigError(
                "cluster_arn",
                cluster_arn,
                "the ARN of a HyperPod cluster, which ends in its id, not its name: see `aws sagemaker "
                f"describe-cluster --cluster-name {name}`",
            )
        self.network = network
        self.functions_inside = network.closed
        self.cluster_name = name
        self.cluster_arn = cluster_arn
        self.node_security_group = ec2.SecurityGroup.from_security_group_id(
            self, "Nodes", node_security_group_id, mutable=False
        )
        if oidc_provider_arn:
            self._oidc_provider = iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(
                self, "Oidc", oidc_provider_arn
            )
        as_it_is: dict[str, Any] = {
            "cluster_name": eks_cluster_name,
            "cluster_security_group_id": eks_security_group_id,
            "vpc": network.vpc,
        }
        kubectl = eks.KubectlProvider(
            self,
            "Kubectl",
            # The provider asks for a cluster, and the cluster for its provider: so it is read twice.
            cluster=eks.Cluster.from_cluster_attributes(self, "EksOfKubectl", **as_it_is),
            kubectl_layer=kubectl_layer(self, kubernetes_version),
            memory=cdk.Size.mebibytes(1024),
            private_subnets=network.private_subnets,
        )
        accept_what_cdk_builds(kubectl)
        self.eks_cluster = eks.Cluster.from_cluster_attributes(
            self, "Eks", kubectl_provider=kubectl, **as_it_is
        )
        self.addons = ClusterAddons(self, "Addons", cluster=self.eks_cluster, adopted=True)
        assert kubectl.role is not None
        partition = cdk.Stack.of(self).partition
        self.nodes_ready: IDependable = eks.CfnAccessEntry(
            self,
            "KubectlAccess",
            cluster_name=eks_cluster_name,
            principal_arn=kubectl.role.role_arn,
            access_policies=[
                eks.CfnAccessEntry.AccessPolicyProperty(
                    policy_arn=f"arn:{partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                    access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
                )
            ],
        )

    @property
    def oidc_provider(self) -> iam.IOpenIdConnectProvider:
        """The OIDC provider that was given.

        Raises:
            ConfigError: none was.
        """
        if self._oidc_provider is None:
            raise ConfigError(
                "oidc_provider_arn", None, "the ARN of the EKS cluster's OIDC provider in IAM: roles go by it"
            )
        return self._oidc_provider
