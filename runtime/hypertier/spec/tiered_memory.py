"""How much of each node's memory HyperPod's tiered storage takes: `cache.l2` of a deployment file."""

from __future__ import annotations

from collections.abc import Sequence

from hypertier.catalog.instance_types import GIB, find_instance_type
from hypertier.errors import ConfigError
from hypertier.spec.cache_tiers import L2
from hypertier.spec.instance_group import InstanceGroup

SETTING = "cache.l2.memory"


def memory_percent_of(l2: L2, groups: Sequence[InstanceGroup]) -> int:
    """Percent of each node's memory, as AWS takes it: `memoryPercent`, or what `memory` comes to.

    That is rounded up on the smallest node with GPUs, or of all where none has any, so that each node that
    engines run on gives so much at least.

    Raises:
        ConfigError: a node has less, or is of a type whose memory hypertier does not know.
    """
    wanted = l2.memory_bytes
    if wanted is None:
        return l2.memory_percent
    kept = [group.instance_type for group in groups if group.has_gpus] or [
        group.instance_type for group in groups
    ]
    nodes = [find_instance_type(name) for name in kept]
    known = [node for node in nodes if node is not None]
    if len(known) < len(kept):
        strange = next(name for name, node in zip(kept, nodes, strict=True) if node is None)
        expected = f"cache.l2.memoryPercent instead: hypertier does not know the memory of {strange}"
        raise ConfigError(SETTING, l2.memory, expected)
    smallest = min(known, key=lambda node: node.memory_bytes)
    percent = -(-wanted * 100 // smallest.memory_bytes)
    if percent > 100:
        expected = f"at most {smallest.memory_bytes // GIB}Gi, as a node of {smallest.name} has"
        raise ConfigError(SETTING, l2.memory, expected)
    return percent
