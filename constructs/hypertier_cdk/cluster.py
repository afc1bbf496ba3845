"""A HyperPod cluster orchestrated by EKS: from a network to nodes that pods can run on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IDependable

from hypertier.errors import ConfigError
from hypertier_cdk.eks import new_eks_cluster
from hypertier_cdk.instance_group import InstanceGroup, instance_group_property
from hypertier_cdk.network import Network
from hypertier_cdk.roles import execution_role
from hypertier_cdk.security_groups import NodeSecurityGroup
from hypertier_cdk.tiered_storage import TieredStorage

_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")


class HyperPodCluster(Construct):
    """An EKS cluster and the HyperPod cluster `name` on it, with its instance groups.

    Attributes:
        nodes_ready: what pods must depend on; the cluster's own resource is complete before any node exists.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        kubernetes_version: str,
        instance_groups: Sequence[InstanceGroup],
        tiered_storage: TieredStorage | None = None,
        name: str,
    ) -> None:
        super().__init__(scope, construct_id)
        if not _NAME.fullmatch(name):
            raise ConfigError("name", name, "1 to 63 letters, digits and hyphens, no hyphen at either end")
        if not instance_groups:
            raise ConfigError("instance_groups", [], "one group at least")

        self.network = network
        self.eks_cluster = new_eks_cluster(
            self, "Eks", network=network, kubernetes_version=kubernetes_version
        )
        nodes = NodeSecurityGroup(self, "Nodes", vpc=network.vpc, eks_cluster=self.eks_cluster)
        self.node_security_group = nodes.group
        self.execution_role = execution_role(self, "ExecutionRole", vpc=network.vpc, cluster=self.eks_cluster)
        self._addons = [
            eks.Addon(self, f"Addon-{addon}", addon_name=addon, cluster=self.eks_cluster)
            for addon in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
        ]
        self.resource = sagemaker.CfnCluster(
            self,
            "Resource",
            cluster_name=name,
            orchestrator=sagemaker.CfnCluster.OrchestratorProperty(
                eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(
                    cluster_arn=self.eks_cluster.cluster_arn
                )
            ),
            vpc_config=sagemaker.CfnCluster.VpcConfigProperty(
                security_group_ids=[self.node_security_group.security_group_id],
                subnets=[subnet.subnet_id for subnet in network.private_subnets],
            ),
            instance_groups=[self._group(group) for group in instance_groups],
            node_provisioning_mode="Continuous",
            node_recovery="Automatic",
            tiered_storage_config=tiered_storage.to_property() if tiered_storage else None,
        )
        self.resource.node.add_dependency(self.execution_role, *nodes.rules, *self._addons)
        self.cluster_name = name
        self.cluster_arn = self.resource.attr_cluster_arn
        self.nodes_ready: IDependable = self.resource

    def add_manifest(
        self,
        manifest_id: str,
        objects: Sequence[Mapping[str, Any]],
        *depends_on: IDependable,
        scope: Construct | None = None,
    ) -> eks.KubernetesManifest:
        """Apply Kubernetes objects once nodes are ready and what they depend on exists.

        `scope` says whose they are (default: the cluster's), so that another stack can bring its own.
        """
        manifest = eks.KubernetesManifest(
            scope or self, manifest_id, cluster=self.eks_cluster, manifest=list(objects), overwrite=True
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
        association = eks.CfnPodIdentityAssociation(
            owner,
            "Association",
            cluster_name=self.eks_cluster.cluster_name,
            namespace=namespace,
            service_account=service_account,
            role_arn=role.role_arn,
        )
        association.node.add_dependency(*self._addons)
        return role

    def _group(self, group: InstanceGroup) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
        return instance_group_property(
            group,
            execution_role=self.execution_role,
            subnet=self.network.subnet_in(group.availability_zone_id) if group.availability_zone_id else None,
            security_groups=[self.node_security_group],
        )
