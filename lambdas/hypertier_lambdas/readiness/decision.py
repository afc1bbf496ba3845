"""Whether so many nodes of each instance group are ready for pods, and what is missing. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GROUP_LABEL = "sagemaker.amazonaws.com/instance-group-name"
HEALTH_LABEL = "sagemaker.amazonaws.com/node-health-status"
SCHEDULABLE = "Schedulable"
MAX_NODES_NAMED = 3


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the Kubernetes API shows it; `obstacle` says why no pod could run on it, or is empty."""

    name: str
    group: str
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether all groups have enough ready nodes; `missing` says which have not, and why."""

    is_ready: bool
    missing: str


def read_node(manifest: Mapping[str, Any]) -> Node:
    """Read a Node object of the API."""
    metadata, spec = manifest.get("metadata", {}), manifest.get("spec", {})
    labels = metadata.get("labels", {})
    conditions = manifest.get("status", {}).get("conditions", [])
    ready: Mapping[str, Any] = next(
        (condition for condition in conditions if condition.get("type") == "Ready"), {}
    )
    health = labels.get(HEALTH_LABEL, SCHEDULABLE)
    obstacle = ""
    if ready.get("status") != "True":
        obstacle = f"not ready: {ready.get('reason') or 'the kubelet has not reported yet'}"
    elif health != SCHEDULABLE:
        obstacle = f"health status {health}"
    elif spec.get("unschedulable"):
        obstacle = "cordoned"
    return Node(metadata.get("name", ""), labels.get(GROUP_LABEL, ""), obstacle)


def judge(wanted: Mapping[str, int], nodes: Sequence[Node]) -> Verdict:
    """Compare the nodes with how many are `wanted` of each instance group."""
    short = []
    for group, count in sorted(wanted.items()):
        joined = [node for node in nodes if node.group == group]
        num_ready = sum(not node.obstacle for node in joined)
        if num_ready < count:
            short.append(f"{group}: {num_ready} of {count} nodes ready ({_why(joined)})")
    return Verdict(not short, "; ".join(short))


def _why(joined: Sequence[Node]) -> str:
    """What keeps the group's nodes from being ready, a few of them by name."""
    blocked = [node for node in joined if node.obstacle]
    if not joined:
        return "none has joined the cluster yet"
    if not blocked:
        return f"{len(joined)} joined"
    named = ", ".join(f"{node.name} {node.obstacle}" for node in blocked[:MAX_NODES_NAMED])
    more = len(blocked) - MAX_NODES_NAMED
    return named + (f", and {more} more" if more > 0 else "")
