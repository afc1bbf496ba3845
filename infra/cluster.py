"""The stack that costs most: EKS, HyperPod and its nodes."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from hypertier.catalog.node_images import efa_image
from hypertier.spec.deployment import Deployment
from hypertier.spec.roles import WHOLE, roles_of
from hypertier_cdk import HyperPodCluster, Network, TieredStorage
from hypertier_cdk.charts.disaggregation import EFA_RESOURCE
from infra.controllers import add_controllers
from infra.existing import existing_eks, existing_network
from infra.operator import add_operator


class ClusterStack(cdk.Stack):
    """The HyperPod cluster of a deployment; with tiered storage where an endpoint's L2 is that.

    Without a `network` it comes into the VPC, or onto the EKS cluster, that `cluster.attributes` tell of.

    Attributes:
        operator_ready: what endpoints of AWS's operator wait for; None where hypertier serves itself.
        controllers: what endpoints need in the cluster beside it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        network: Network | None = None,
        **options: Any,
    ) -> None:
        super().__init__(scope, construct_id, description=f"{deployment.name}: HyperPod cluster", **options)
        told = deployment.cluster.attributes
        if network is None:
            assert told is not None
            network = existing_network(self, deployment, told)
        self.network = network
        eks_cluster = existing_eks(self, deployment, told, network) if told else None
        self.cluster = HyperPodCluster(
            self,
            "Cluster",
            network=network,
            kubernetes_version=None if eks_cluster else deployment.cluster.kubernetes_version,
            eks_cluster=eks_cluster,
            instance_groups=deployment.instance_groups,
            tiered_storage=TieredStorage(memory_percent=deployment.tiered_percent)
            if _uses_tiered_storage(deployment)
            else None,
            autoscaling=deployment.cluster.autoscaling,
            nvidia_plugin_image=deployment.images.nvidia_device_plugin,
            efa_plugin_image=efa_plugin_image(deployment),
            health_agent_image=deployment.images.health_agent,
            name=deployment.name,
        )
        self.operator_ready = add_operator(self, deployment, self.cluster)
        self.controllers = add_controllers(self, deployment, self.cluster)


def efa_plugin_image(deployment: Deployment) -> str | None:
    """The image of the EFA device plugin: the one named, else AWS's where an endpoint asks for EFA."""
    asked = any(
        role.component != WHOLE or EFA_RESOURCE in (resources.limits or resources.requests or {})
        for endpoint in deployment.endpoints
        for role in roles_of(deployment, endpoint)
        for resources in (role.endpoint.spec.worker.resources,)
    )
    return deployment.images.efa_device_plugin or (efa_image(deployment.region) if asked else None)


def _uses_tiered_storage(deployment: Deployment) -> bool:
    return any(
        (endpoint.kv_cache.l2_backend or "").lower() == "tieredstorage" for endpoint in deployment.endpoints
    )
