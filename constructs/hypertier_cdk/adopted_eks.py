"""An EKS cluster that exists already: manifests reach it, and nothing of it is changed or deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from hypertier.errors import ConfigError
from hypertier.spec.cluster import OIDC_PROVIDER_ARN, OIDC_PROVIDER_FORM
from hypertier_cdk.arguments import checked
from hypertier_cdk.eks import kubectl_layer
from hypertier_cdk.forms import AddonName, EksName, KubernetesVersion, Namespace, SecurityGroupId
from hypertier_cdk.nag import accept_what_cdk_builds
from hypertier_cdk.network import Network


class EksCluster(Construct):
    """An EKS cluster as it is, by `from_cluster_attributes`; a `HyperPodCluster` takes it as `eks_cluster`.

    It must take access entries (authentication mode API or API_AND_CONFIG_MAP). What is made here is a
    function that applies manifests, and its access entry.

    Attributes:
        cluster: what the CDK calls it.
        security_group_id: EKS's own group of it.
        existing_addons: the add-ons that it has, which are left as they are.
        existing_namespaces: the namespaces that it has, which are left as they are.
        ready: what each manifest depends on.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        cluster_name: EksName,
        kubernetes_version: KubernetesVersion,
        security_group_id: SecurityGroupId,
        oidc_provider_arn: str | None = None,
        existing_addons: Sequence[AddonName] = (),
        existing_namespaces: Sequence[Namespace] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        if (
            oidc_provider_arn is not None
            and not cdk.Token.is_unresolved(oidc_provider_arn)
            and not OIDC_PROVIDER_ARN.fullmatch(oidc_provider_arn)
        ):
            raise ConfigError("oidc_provider_arn", oidc_provider_arn, OIDC_PROVIDER_FORM)
        self.security_group_id = security_group_id
        self.existing_addons = tuple(existing_addons)
        self.existing_namespaces = tuple(existing_namespaces)
        self._oidc_provider = (
            iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(self, "Oidc", oidc_provider_arn)
            if oidc_provider_arn
            else None
        )
        as_it_is: dict[str, Any] = {
            "cluster_name": cluster_name,
            "cluster_security_group_id": security_group_id,
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
        self.cluster: eks.ICluster = eks.Cluster.from_cluster_attributes(
            self, "Eks", kubectl_provider=kubectl, **as_it_is
        )
        assert kubectl.role is not None
        partition = cdk.Stack.of(self).partition
        self.ready: IDependable = eks.CfnAccessEntry(
            self,
            "KubectlAccess",
            cluster_name=cluster_name,
            principal_arn=kubectl.role.role_arn,
            access_policies=[
                eks.CfnAccessEntry.AccessPolicyProperty(
                    policy_arn=f"arn:{partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                    access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
                )
            ],
        )

    @staticmethod
    @checked
    def from_cluster_attributes(
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        cluster_name: EksName,
        kubernetes_version: KubernetesVersion,
        security_group_id: SecurityGroupId,
        oidc_provider_arn: str | None = None,
        existing_addons: Sequence[AddonName] = (),
        existing_namespaces: Sequence[Namespace] = (),
    ) -> EksCluster:
        """The EKS cluster `cluster_name` in `network`, as `aws eks describe-cluster` tells of it.

        `security_group_id` is EKS's own (`clusterSecurityGroupId`). `oidc_provider_arn`, of its provider in
        IAM, is needed by what mounts S3 buckets or brings AWS's operator. Add-ons and namespaces that exist
        are not made again; those that nobody names are, and a deployment fails where they exist after all.
        """
        return EksCluster(
            scope,
            construct_id,
            network=network,
            cluster_name=cluster_name,
            kubernetes_version=kubernetes_version,
            security_group_id=security_group_id,
            oidc_provider_arn=oidc_provider_arn,
            existing_addons=existing_addons,
            existing_namespaces=existing_namespaces,
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
