"""A VPC and an EKS cluster of somebody else's, as AWS would tell of them."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk

from hypertier_cdk import EksCluster, Network


def adopt_network(stack: cdk.Stack, **settings: Any) -> Network:
    return Network.from_vpc_attributes(
        stack,
        "Network",
        vpc_id="vpc-1",
        availability_zones=["us-west-2a", "us-west-2b"],
        private_subnet_ids=["subnet-1", "subnet-2"],
        **settings,
    )


def adopt_eks(stack: cdk.Stack, network: Network, **settings: Any) -> EksCluster:
    return EksCluster.from_cluster_attributes(
        stack,
        "Eks",
        network=network,
        cluster_name="my-eks",
        kubernetes_version="1.34",
        security_group_id="sg-eks",
        **settings,
    )
