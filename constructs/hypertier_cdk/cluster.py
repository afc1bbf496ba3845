"""A HyperPod cluster orchestrated by EKS: from a network to nodes that pods can run on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct, IDependable

from hypertier.catalog.node_images import NVIDIA_PLUGIN_IMAGE
from hypertier.errors import ConfigError
from hypertier.planning.addresses import addresses_by_zone
from hypertier.spec import instance_group as spec
from hypertier.spec.groups_together import check_open, check_together, settled
from hypertier_cdk.addons import ClusterAddons
from hypertier_cdk.adopted_cluster import AdoptedCluster
from hypertier_cdk.adopted_eks import EksCluster
from hypertier_cdk.arguments import check_image, checked
from hypertier_cdk.cluster_base import ClusterBase
from hypertier_cdk.eks import new_eks_cluster
from hypertier_cdk.forms import AddonName, AddonVersion, HyperPodName, SecurityGroupId
from hypertier_cdk.instance_group import InstanceGroup
from hypertier_cdk.lifecycle_scripts import LifecycleScripts, located
from hypertier_cdk.manifest import new_manifest
from hypertier_cdk.network import Network
from hypertier_cdk.node_agents import node_agents
from hypertier_cdk.plain import resource
from hypertier_cdk.readiness import NodeReadiness
from hypertier_cdk.roles import CLUSTER_TAG, autoscaling_role, execution_role, let_read_scripts
from hypertier_cdk.security_groups import NodeSecurityGroup
from hypertier_cdk.tiered_storage import TieredStorage

_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")


class HyperPodCluster(ClusterBase):
    """An EKS cluster and the HyperPod cluster `name` on it, with its instance groups.

    On an `eks_cluster` that exists its control plane, add-ons and security group are left as they are, and
    HyperPod's nodes carry that group beside their own. `api_cidrs` says who outside the VPC may reach the
    Kubernetes API, behind IAM: everybody for None, nobody for none. With `autoscaling` HyperPod's Karpenter
    adds and removes nodes itself, within `HyperpodNodeClass` objects.

    Attributes:
        resource: the `AWS::SageMaker::Cluster`.
        execution_role: the nodes' own role.
        cluster_role: Karpenter's role, or None.
        instance_groups: the groups as the cluster gets them.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        kubernetes_version: str | None = None,
        eks_cluster: EksCluster | None = None,
        instance_groups: Sequence[spec.InstanceGroup],
        tiered_storage: TieredStorage | None = None,
        autoscaling: bool = False,
        api_cidrs: Sequence[str] | None = None,
        addon_versions: Mapping[AddonName, AddonVersion] | None = None,
        nvidia_plugin_image: str | None = None,
        efa_plugin_image: str | None = None,
        health_agent_image: str | None = None,
        name: str,
    ) -> None:
        super().__init__(scope, construct_id)
        if (kubernetes_version is None) == (eks_cluster is None):
            raise ConfigError(
                "kubernetes_version",
                kubernetes_version,
                "the version of a new EKS cluster, or eks_cluster instead",
            )
        if eks_cluster is not None and api_cidrs is not None:
            raise ConfigError(
                "api_cidrs", list(api_cidrs), "to be left out beside eks_cluster, whose API is its owner's"
            )
        if not _NAME.fullmatch(name):
            raise ConfigError("name", name, "1 to 63 letters, digits and hyphens, no hyphen at either end")
        for setting, image in (
            ("nvidia_plugin_image", nvidia_plugin_image),
            ("efa_plugin_image", efa_plugin_image),
            ("health_agent_image", health_agent_image),
        ):
            check_image(setting, image)
            network.refuse_unreachable_image(setting, image)
        asked = [InstanceGroup.of(group) for group in instance_groups]
        region = cdk.Stack.of(self).region
        agents = node_agents(
            asked,
            None if cdk.Token.is_unresolved(region) else region,
            nvidia_plugin_image=nvidia_plugin_image,
            efa_plugin_image=efa_plugin_image,
            health_agent_image_uri=health_agent_image,
        )
        if nvidia_plugin_image is None and any(group.has_gpus for group in asked):
            network.refuse_internet(
                "nvidia_plugin_image",
                None,
                f"a copy of {NVIDIA_PLUGIN_IMAGE} in Amazon ECR",
            )
        network.refuse_unreachable_images(agents)
        check_together(asked, "instance_groups")
        groups = settled(asked, tiered_storage=tiered_storage is not None)
        check_open(groups, "instance_groups", autoscaling=autoscaling)
        local_scripts = located({group.name: group.lifecycle for group in groups if group.lifecycle})
        network.check_room(addresses_by_zone(groups))

        self.network = network
        network.reach("nodes", "manifests")
        if eks_cluster is not None:
            self.adopt(eks_cluster)
        elif kubernetes_version is not None:
            self.eks_cluster = new_eks_cluster(
                self,
                "Eks",
                network=network,
                kubernetes_version=kubernetes_version,
                api_cidrs=api_cidrs,
            )
        self.functions_inside = network.closed or api_cidrs is not None
        nodes = NodeSecurityGroup(
            self, "Nodes", vpc=network.vpc, eks_cluster=self.eks_cluster, adopted=self.adopted is not None
        )
        self.node_security_group = nodes.group
        self.execution_role = execution_role(self, "ExecutionRole", vpc=network.vpc, cluster=self.eks_cluster)
        scripts = LifecycleScripts(self, "Scripts", scripts=local_scripts) if local_scripts else None
        groups = tuple(
            replace(group, lifecycle=scripts.in_s3(group.name))
            if scripts and group.name in local_scripts
            else group
            for group in groups
        )
        let_read_scripts(self.execution_role, [group.lifecycle for group in groups if group.lifecycle])
        self.addons = ClusterAddons(
            self,
            "Addons",
            cluster=self.eks_cluster,
            versions=addon_versions,
            existing=eks_cluster.existing_addons if eks_cluster else (),
            adopted=self.adopted is not None,
        )
        self._volumes_key = (
            kms.Key(self, "VolumesKey", description="volumes of HyperPod nodes", enable_key_rotation=True)
            if any(group.needs_volume_key for group in groups)
            else None
        )
        self.cluster_role = (
            autoscaling_role(self, "ClusterRole", name, self._volume_key_arns(groups))
            if autoscaling
            else None
        )
        properties: dict[str, Any] = {
            "ClusterName": name,
            "Tags": [{"Key": CLUSTER_TAG, "Value": name}],
            "Orchestrator": {"Eks": {"ClusterArn": self.eks_cluster.cluster_arn}},
            "VpcConfig": {
                "SecurityGroupIds": nodes.carried,
                "Subnets": [subnet.subnet_id for subnet in network.private_subnets],
            },
            "InstanceGroups": [self._group(group, nodes.carried) for group in groups],
            "NodeProvisioningMode": "Continuous",
            "NodeRecovery": "Automatic",
        }
        if self.cluster_role:
            properties["AutoScaling"] = {"Mode": "Enable", "AutoScalerType": "Karpenter"}
            properties["ClusterRole"] = self.cluster_role.role_arn
        if tiered_storage:
            properties["TieredStorageConfig"] = tiered_storage.to_property()
        self.resource = resource(self, "Resource", "AWS::SageMaker::Cluster", **properties)
        self.instance_groups = groups
        roles = [self.execution_role, *([self.cluster_role] if self.cluster_role else [])]
        self.resource.node.add_dependency(*roles, *nodes.rules, *self.addons.before_nodes)
        if scripts:
            self.resource.node.add_dependency(*scripts.ready)
        self.cluster_name = name
        self.cluster_arn = self.resource.get_att("ClusterArn").to_string()
        # Before the nodes: a node is no use without them, and a DaemonSet waits for nodes by itself.
        manifest = new_manifest(
            self,
            "NodeAgents",
            cluster=self.eks_cluster,
            objects=_to_make(agents, eks_cluster.existing_namespaces if eks_cluster else ()),
            overwrite=self.adopted is None,
        )
        if eks_cluster is not None:
            manifest.node.add_dependency(eks_cluster.ready)
        self.resource.node.add_dependency(manifest)
        awaited = first_nodes(groups)
        self.nodes_ready: IDependable = self.resource
        if awaited:
            readiness = NodeReadiness(
                self,
                "NodeReadiness",
                eks_cluster=self.eks_cluster,
                network=network,
                inside=self.functions_inside,
                hyperpod_name=name,
                nodes_by_group=awaited,
                after=self.resource,
                adopted=self.adopted is not None,
            )
            self.nodes_ready = readiness.ready
            if eks_cluster is not None:
                readiness.node.add_dependency(eks_cluster.ready)
        self.addons.after_nodes(self.nodes_ready)

    @staticmethod
    @checked
    def from_cluster_attributes(
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        eks_cluster: EksCluster,
        cluster_name: HyperPodName,
        cluster_arn: str,
        node_security_group_id: SecurityGroupId,
    ) -> ClusterBase:
        """The HyperPod cluster `cluster_name` on `eks_cluster`, both as they are.

        `aws sagemaker describe-cluster` tells `cluster_arn`, which ends in an id, and the nodes' security
        group. The EKS cluster must have the Pod Identity agent.
        """
        return AdoptedCluster(
            scope,
            construct_id,
            network=network,
            eks_cluster=eks_cluster,
            cluster_name=cluster_name,
            cluster_arn=cluster_arn,
            node_security_group_id=node_security_group_id,
        )

    def _volume_key_arns(self, groups: Sequence[InstanceGroup]) -> list[str]:
        """Every key that the nodes' volumes are encrypted with, each once."""
        own = [self._volumes_key.key_arn] if self._volumes_key else []
        return list(dict.fromkeys([*own, *(key for group in groups for key in group.volume_key_arns)]))

    def _group(self, group: InstanceGroup, security_group_ids: Sequence[str]) -> dict[str, Any]:
        return group.to_property(
            execution_role=self.execution_role,
            subnet=self.network.subnet_in(group.availability_zone_id) if group.availability_zone_id else None,
            security_group_ids=security_group_ids,
            volume_key=self._volumes_key,
        )


def _to_make(objects: Sequence[dict[str, Any]], existing_namespaces: Sequence[str]) -> list[dict[str, Any]]:
    """All but the namespaces that exist."""
    return [
        entry
        for entry in objects
        if entry["kind"] != "Namespace" or entry["metadata"]["name"] not in existing_namespaces
    ]


def first_nodes(groups: Sequence[InstanceGroup]) -> dict[str, int]:
    """The nodes that a deployment waits for: one of each group without GPUs, or of each where all have them.

    Not for all of them: GPU capacity may take longer than CloudFormation waits, and pods wait for it by
    themselves.
    """
    filled = [group for group in groups if group.count]
    awaited = [group for group in filled if not group.has_gpus] or filled
    return {group.name: 1 for group in awaited}
