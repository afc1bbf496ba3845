"""What a HyperPod cluster offers to those who put workloads on it, whether it was made here or adopted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from hypertier.catalog.addons import FSX_DRIVER, S3_DRIVER
from hypertier_cdk.addons import ClusterAddons
from hypertier_cdk.adopted_eks import EksCluster
from hypertier_cdk.manifest import new_manifest
from hypertier_cdk.nag import accept_wildcards
from hypertier_cdk.network import Network
from hypertier_cdk.plain import resource
from hypertier_cdk.roles import service_account_role


class ClusterBase(Construct):
    """A cluster that takes manifests, gives pods their roles, and mounts buckets and file systems for them.

    Attributes:
        network: where it lives.
        eks_cluster: what Kubernetes says of it.
        cluster_name: the HyperPod cluster's name.
        cluster_arn: the HyperPod cluster's ARN.
        node_security_group: the group of its nodes.
        addons: its EKS add-ons.
        functions_inside: whether functions must stand in the VPC to reach the Kubernetes API.
        nodes_ready: what pods must depend on; a new cluster is complete before any node exists.
        adopted: the EKS cluster, where it is somebody else's; None for one that was made here.
    """

    network: Network
    eks_cluster: eks.ICluster
    cluster_name: str
    cluster_arn: str
    node_security_group: ec2.ISecurityGroup
    addons: ClusterAddons
    functions_inside: bool
    nodes_ready: IDependable

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.adopted: EksCluster | None = None
        self._s3_role: iam.Role | None = None
        self._oidc_provider: iam.IOpenIdConnectProvider | None = None

    def adopt(self, eks_cluster: EksCluster) -> None:
        """Live on an EKS cluster that exists already."""
        self.adopted = eks_cluster
        self.eks_cluster = eks_cluster.cluster

    def add_manifest(
        self,
        manifest_id: str,
        objects: Sequence[Mapping[str, Any]],
        *depends_on: IDependable,
        scope: Construct | None = None,
        plain: Sequence[str | None] = (),
    ) -> Construct:
        """Apply Kubernetes objects once nodes are ready and what they depend on exists.

        `scope` says whose they are (default: the cluster's), so that another stack can bring its own. On
        somebody else's cluster a deployment fails where an object of such a name exists, and leaves it as it
        is. `plain` are texts in the objects with tokens for ARNs, names and addresses: objects with no other
        tokens cost less at synth.
        """
        self.network.refuse_unreachable_images(objects)
        manifest = new_manifest(
            scope or self,
            manifest_id,
            cluster=self.eks_cluster,
            objects=objects,
            overwrite=self.adopted is None,
            plain=plain,
        )
        manifest.node.add_dependency(self.nodes_ready, *depends_on)
        return manifest

    def pod_role(
        self, role_id: str, namespace: str, service_account: str, *, scope: Construct | None = None
    ) -> iam.Role:
        """A role for the pods of one service account, by EKS Pod Identity; without any permission yet."""
        owner = Construct(scope or self, role_id)
        role = iam.Role(
            owner,
            "Role",
            assumed_by=iam.SessionTagsPrincipal(
                iam.ServicePrincipal(
                    "pods.eks.amazonaws.com",
                    conditions={
                        "StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account},
                        "ArnEquals": {"aws:SourceArn": self.eks_cluster.cluster_arn},
                    },
                )
            ),
            description=f"pods of {namespace}/{service_account}",
        )
        association = resource(
            owner,
            "Association",
            "AWS::EKS::PodIdentityAssociation",
            ClusterName=self.eks_cluster.cluster_name,
            Namespace=namespace,
            ServiceAccount=service_account,
            RoleArn=role.role_arn,
        )
        if self.addons.before_nodes:
            association.node.add_dependency(*self.addons.before_nodes)
        return role

    @property
    def oidc_provider(self) -> iam.IOpenIdConnectProvider:
        """The cluster's OIDC provider in IAM, made when the first role goes by it.

        Raises:
            ConfigError: the cluster is somebody else's, and its provider was not given.
        """
        if self.adopted is not None:
            return self.adopted.oidc_provider
        if self._oidc_provider is None:
            # Not the cluster's own property, which makes it by a custom resource.
            cluster = cast("eks.Cluster", self.eks_cluster)
            self._oidc_provider = eks.OidcProviderNative(
                self, "Oidc", url=cluster.cluster_open_id_connect_issuer_url
            )
        return self._oidc_provider

    def s3_driver(self) -> IDependable:
        """The driver that mounts S3 buckets, with a role that may read none yet."""
        if self.addons.exists(S3_DRIVER):
            return self.addons.add(S3_DRIVER)
        if self._s3_role is None:
            self._s3_role = service_account_role(
                self,
                "S3DriverRole",
                provider=self.oidc_provider,
                namespace="kube-system",
                service_account="s3-csi-driver-sa",
                description="mounts S3 buckets for pods",
            )
        # GPU nodes are tainted; weights are mounted there.
        everywhere = {"node": {"tolerateAllTaints": True}}
        return self.addons.add(S3_DRIVER, role=self._s3_role, configuration=everywhere, after=[self._s3_role])

    def read_bucket(self, bucket_name: str) -> IDependable:
        """Let pods mount this S3 bucket for reading; depend on what comes back to be able to.

        The driver has one role for all pods, so every pod can mount what one of them may. A driver that is
        there already has a role of its owner's, who lets it read the bucket.
        """
        driver = self.s3_driver()
        if self._s3_role is None:
            return driver
        bucket = f"arn:{cdk.Stack.of(self).partition}:s3:::{bucket_name}"
        self._s3_role.add_to_policy(iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket]))
        self._s3_role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[f"{bucket}/*"]))
        accept_wildcards(self._s3_role, "every object of the bucket that was asked for", f"{bucket}/*")
        return driver

    def mount_fsx(self) -> IDependable:
        """Let pods mount FSx for Lustre file systems that exist; depend on what comes back to be able to."""
        return self.addons.add(FSX_DRIVER)
