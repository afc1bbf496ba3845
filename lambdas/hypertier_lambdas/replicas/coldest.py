"""Which pods are to go when there are to be fewer: those whose caches are worth least. Pure arithmetic.

A ReplicaSet deletes pods that are not ready first, then the one with the lowest `pod-deletion-cost`, 0 where
there is none, then those that share a node with more of their kind, then the younger one. Kubernetes wants
the cost written once before a scale-down, not whenever a figure changes.
https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost (read 2026-12-03)

So only what is to go bears a cost, below 0: it is gone with the pod, and those that stay bear none that could
be out of date the next time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
WORTH = "hypertier.dev/replicas-warm-tokens"
"""Beside each cost of ours, for people and to tell ours from another's: the pod's worth, in tokens."""

Annotations = Mapping[str, str | None]


@dataclass(frozen=True)
class Pod:
    """A pod that its ReplicaSet counts, as far as it matters here; `created_at` as Kubernetes writes it."""

    name: str
    ip: str = ""
    node: str = ""
    created_at: str = ""
    is_ready: bool = False
    cost: str | None = None
    worth: str | None = None


@dataclass(frozen=True)
class Choice:
    """Annotations to write, by the pod's name, None to take one away; those marked to go, coldest first.

    Where `unknown` says why nobody can tell the coldest, none is marked, and Kubernetes' own rule holds.
    """

    patches: Mapping[str, Annotations] = field(default_factory=dict)
    going: tuple[str, ...] = ()
    unknown: str | None = None


def read_pods(items: Sequence[Mapping[str, Any]]) -> list[Pod]:
    """The pods that are there to stay so far: those that end, or have ended, count for no ReplicaSet."""
    pods = []
    for item in items:
        metadata, status = item["metadata"], item.get("status", {})
        if metadata.get("deletionTimestamp") or status.get("phase") in ("Succeeded", "Failed"):
            continue
        annotations = metadata.get("annotations") or {}
        conditions = {entry["type"]: entry["status"] for entry in status.get("conditions", ())}
        pods.append(
            Pod(
                name=metadata["name"],
                ip=status.get("podIP", ""),
                node=item.get("spec", {}).get("nodeName", ""),
                created_at=metadata.get("creationTimestamp", ""),
                is_ready=conditions.get("Ready") == "True",
                cost=annotations.get(DELETION_COST),
                worth=annotations.get(WORTH),
            )
        )
    return pods


def choose(pods: Sequence[Pod], warm_tokens: Mapping[str, float], replicas: int) -> Choice:
    """Mark as many of `pods` as are more than `replicas`, those worth least by `warm_tokens` (by address).

    Pods that are not ready go anyhow and first, so they count and need no mark. Of two that are worth the
    same, the one goes that shares its node with more of them, then the younger, as without a mark. Where one
    that is ready has no figure nobody knows which is coldest; where another has written costs, they stay.
    """
    others = sorted(pod.name for pod in pods if pod.cost is not None and pod.worth is None)
    if others:
        return Choice(unknown=f"{others[0]} has a {DELETION_COST} that somebody else wrote")
    ready = [pod for pod in pods if pod.is_ready]
    num_going = max(0, len(ready) - replicas)
    silent = sorted(pod.name for pod in ready if pod.ip not in warm_tokens)
    unknown = None
    if num_going and silent:
        unknown = f"{len(silent)} of {len(ready)} replicas, such as {silent[0]}, have no fresh WarmTokens"
        num_going = 0
    on_node = Counter(pod.node for pod in ready)
    # The youngest first, then by what is worth least: each sort keeps the order of the one before.
    order = sorted(ready, key=lambda pod: (pod.created_at, pod.name), reverse=True)
    order.sort(key=lambda pod: (warm_tokens.get(pod.ip, 0.0), -on_node[pod.node]))
    going = order[:num_going]
    wanted: dict[str, tuple[str | None, str | None]] = {
        pod.name: (str(rank - num_going), f"{warm_tokens[pod.ip]:.0f}") for rank, pod in enumerate(going)
    }
    patches: dict[str, Annotations] = {}
    # What an earlier step left comes away first: were the writing to end halfway, only cold ones bear a mark.
    for pod in sorted(pods, key=lambda pod: pod.name in wanted):
        cost, worth = wanted.get(pod.name, (None, None))
        if (pod.cost, pod.worth) != (cost, worth):
            patches[pod.name] = {DELETION_COST: cost, WORTH: worth}
    return Choice(patches, tuple(pod.name for pod in going), unknown)
