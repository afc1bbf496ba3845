"""The quotas to ask AWS for before a deployment, as its templates need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypertier.planning import quotas
from hypertier.planning.quotas import Nodes, Quota
from hypertier_cdk.review.templates import Assembly


def quotas_of(assembly: Assembly) -> tuple[Quota, ...]:
    """What to ask for, by service and name."""
    clusters = assembly.of_type("AWS::SageMaker::Cluster")
    return quotas.quotas_of(map(nodes_of, cluster.get("InstanceGroups", default=())) for cluster in clusters)


def nodes_of(group: Mapping[str, Any]) -> Nodes:
    """The nodes of an instance group as `AWS::SageMaker::Cluster` has it."""
    several = (group.get("InstanceRequirements") or {}).get("InstanceTypes")
    return Nodes(
        count=int(group["InstanceCount"]),
        types=tuple(several or [group["InstanceType"]]),
        spot="Spot" in (group.get("CapacityRequirements") or {}),
    )
