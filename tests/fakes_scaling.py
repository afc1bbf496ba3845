"""A cluster of GPU nodes, and an endpoint on it that scales, synthesized in memory."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk

from hypertier_cdk import CacheUtilizationScaling, HyperPodCluster, InstanceGroup, Network


def gpu_cluster(stack: cdk.Stack, *, closed: bool = False, **options: Any) -> HyperPodCluster:
    """Two nodes with a GPU each, in a network of their own."""
    return HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network", closed=closed),
        kubernetes_version="1.35",
        instance_groups=[InstanceGroup(name="gpu", instance_type="ml.g5.xlarge", count=2)],
        name="scaled",
        **options,
    )


def scaling_on(stack: cdk.Stack, cluster: HyperPodCluster, **options: Any) -> CacheUtilizationScaling:
    """One to three engines, unless told otherwise."""
    return CacheUtilizationScaling(
        stack,
        "Scaling",
        cluster=cluster,
        endpoint="llama",
        namespace="inference",
        deployment="llama-engine",
        **{"min_replicas": 1, "max_replicas": 3} | options,
    )


def scalings_of_roles(
    stack: cdk.Stack,
    cluster: HyperPodCluster,
    *,
    prefill: tuple[int, int] = (1, 2),
    decode: tuple[int, int] = (1, 2),
) -> list[CacheUtilizationScaling]:
    """One for each role of an endpoint, with its least and most replicas."""
    return [
        CacheUtilizationScaling(
            stack,
            role.capitalize(),
            cluster=cluster,
            endpoint="llama",
            namespace="inference",
            deployment=f"llama-{role}",
            role=role,
            min_replicas=least,
            max_replicas=most,
        )
        for role, (least, most) in (("prefill", prefill), ("decode", decode))
    ]
