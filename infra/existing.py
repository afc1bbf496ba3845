"""What a deployment comes onto: the VPC and the EKS cluster that `cluster.attributes` tell of."""

from __future__ import annotations

from constructs import Construct

from hypertier.spec.cluster import ClusterAttributes
from hypertier.spec.deployment import Deployment
from hypertier_cdk import EksCluster, Network


def existing_network(scope: Construct, deployment: Deployment, told: ClusterAttributes) -> Network:
    """The VPC; nothing of it is changed."""
    return Network.from_vpc_attributes(
        scope,
        "Network",
        vpc_id=told.vpc_id,
        vpc_cidrs=told.vpc_cidrs,
        availability_zones=told.availability_zones,
        availability_zone_ids=told.availability_zone_ids,
        private_subnet_ids=told.private_subnet_ids,
        private_subnet_cidrs=told.private_subnet_cidrs,
        closed=deployment.cluster.closed_network,
    )


def existing_eks(
    scope: Construct, deployment: Deployment, told: ClusterAttributes, network: Network
) -> EksCluster | None:
    """The EKS cluster, with what lets manifests in; None where there is none yet."""
    if told.eks_cluster_name is None or told.eks_security_group_id is None:
        return None
    return EksCluster.from_cluster_attributes(
        scope,
        "Eks",
        network=network,
        cluster_name=told.eks_cluster_name,
        kubernetes_version=deployment.cluster.kubernetes_version,
        security_group_id=told.eks_security_group_id,
        oidc_provider_arn=told.oidc_provider_arn,
        existing_addons=told.addons,
        existing_namespaces=told.namespaces,
    )
