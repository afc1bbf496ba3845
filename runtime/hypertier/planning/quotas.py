"""The quotas to ask AWS for before a deployment, with how much is needed.

Each instance type has one for nodes and one for Spot nodes; others bound the nodes of one cluster and of all.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html (read 2026-12-01)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Nodes:
    """So many nodes of one cluster's group, each of any one of `types`."""

    count: int
    types: tuple[str, ...]
    spot: bool = False


def quotas_of(clusters: Iterable[Iterable[Nodes]]) -> tuple[Quota, ...]:
    """What to ask for, by name, for HyperPod clusters with these nodes."""
    needed: Counter[str] = Counter()
    for groups in clusters:
        in_cluster = list(groups)
        needed[ONE_CLUSTER] = max(needed[ONE_CLUSTER], sum(nodes.count for nodes in in_cluster))
        for nodes in in_cluster:
            needed.update(dict.fromkeys(quotas_that_count(nodes), nodes.count))
    return tuple(Quota("sagemaker", name, count) for name, count in sorted(needed.items()) if count)


def quotas_that_count(nodes: Nodes) -> tuple[str, ...]:
    """Those of all clusters together that `nodes` count against; each of their types must allow them all."""
    usage = SPOT if nodes.spot else ON_DEMAND
    everywhere = (ALL_CLUSTERS, ALL_SPOT) if nodes.spot else (ALL_CLUSTERS,)
    return (*everywhere, *(f"{name} for {usage}" for name in nodes.types))
