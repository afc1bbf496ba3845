"""The quotas to ask AWS for before a deployment, with how much is needed.

Each instance type has one for nodes and one for Spot nodes; others bound the nodes of one cluster and of all.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html (read 2026-12-01)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypertier_cdk.review.templates import Assembly

SPOT = "cluster spot instance usage"
ON_DEMAND = "cluster usage"
ONE_CLUSTER = "Maximum number instances allowed per SageMaker HyperPod cluster"  # AWS's own spelling
ALL_CLUSTERS = "Total number of instances allowed across SageMaker HyperPod clusters"
ALL_SPOT = "Total number of Spot instances allowed across SageMaker HyperPod clusters"


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota of a service and what this deployment needs of it."""

    service: str
    name: str
    needed: int


def quotas_of(assembly: Assembly) -> tuple[Quota, ...]:
    """What to ask for, by service and name."""
    needed: Counter[str] = Counter()
    for cluster in assembly.of_type("AWS::SageMaker::Cluster"):
        groups = cluster.get("InstanceGroups", default=())
        num_nodes = sum(int(group["InstanceCount"]) for group in groups)
        needed[ONE_CLUSTER] = max(needed[ONE_CLUSTER], num_nodes)
        for group in groups:
            count = int(group["InstanceCount"])
            spot = "Spot" in (group.get("CapacityRequirements") or {})
            needed[ALL_CLUSTERS] += count
            needed[ALL_SPOT] += count if spot else 0
            for name in _types(group):
                needed[f"{name} for {SPOT if spot else ON_DEMAND}"] += count
    return tuple(Quota("sagemaker", name, count) for name, count in sorted(needed.items()) if count)


def _types(group: Mapping[str, Any]) -> list[str]:
    """The types that a group's nodes may be of: any one of them, so each must allow all nodes."""
    several = (group.get("InstanceRequirements") or {}).get("InstanceTypes")
    return list(several or [group["InstanceType"]])
