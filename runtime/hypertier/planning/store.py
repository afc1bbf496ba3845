"""How many shards of which node type hold so many bytes and deliver so many bytes per second.

Pure arithmetic. A node keeps a share of its memory for itself; the rest holds entries. Within one family the
price follows the memory, so the cheapest plan is the one with the least memory; for a tenth more, fewer and
larger nodes are taken, which need fewer connections. Reads are served by the primaries alone, so replicas add
safety and no bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypertier.catalog.cache_nodes import DEFAULT_FAMILY, FAMILIES, CacheNodeType, nodes_of
from hypertier.errors import ConfigError
from hypertier.spec.quantities import format_bytes

# ElastiCache's default, and its advice for most cases: a copy that joins is filled while writes go on.
# https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/redis-memory-management.html (read 2026-12-01)
RESERVED_MEMORY_PERCENT = 25
# Nodes per cluster, by default. https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Shards.html
# (read 2026-12-01)
MAX_NODES = 90
WORTH_FEWER_SHARDS_RATIO = 1.1


@dataclass(frozen=True, slots=True)
class StorePlan:
    """`num_shards` shards, each a primary and `replicas_per_shard` copies, all of `node_type`."""

    node_type: CacheNodeType
    num_shards: int
    replicas_per_shard: int

    @property
    def num_nodes(self) -> int:
        """Primaries and copies together."""
        return self.num_shards * (1 + self.replicas_per_shard)

    @property
    def size_bytes(self) -> int:
        """What all primaries together hold, in bytes."""
        return self.num_shards * usable_bytes(self.node_type)

    @property
    def bandwidth_bytes_per_second(self) -> int:
        """What all primaries together sustain, in bytes per second."""
        return self.num_shards * self.node_type.bandwidth_bytes_per_second


def usable_bytes(node_type: CacheNodeType) -> int:
    """What one node holds of entries, in bytes."""
    return node_type.memory_bytes * (100 - RESERVED_MEMORY_PERCENT) // 100


def plan_store(
    bandwidth_bytes_per_second: int,
    size_bytes: int,
    *,
    replicas_per_shard: int = 1,
    family: str = DEFAULT_FAMILY,
) -> StorePlan:
    """Return the plan with the fewest shards among those whose memory is within a tenth of the least.

    It stays within one `family`: between families the price of memory differs, and no price can be read
    without an account.

    Raises:
        ConfigError: for a family that the catalog does not have, for amounts of zero or less, and where a
            cluster would need more than 90 nodes.
    """
    if bandwidth_bytes_per_second <= 0:
        raise ConfigError("cache.l2.bandwidth", bandwidth_bytes_per_second, "more than 0 bytes per second")
    if size_bytes <= 0:
        raise ConfigError("cache.l2.size", size_bytes, "more than 0 bytes")
    if family not in FAMILIES:
        raise ConfigError("cache.l2.nodeFamily", family, " or ".join(FAMILIES))
    if replicas_per_shard not in range(6):
        raise ConfigError(
            "replicas_per_shard", replicas_per_shard, "0 to 5, which is what ElastiCache allows"
        )
    plans = [
        StorePlan(node, _num_shards(node, bandwidth_bytes_per_second, size_bytes), replicas_per_shard)
        for node in nodes_of(family)
    ]
    fitting = [plan for plan in plans if plan.num_nodes <= MAX_NODES]
    if not fitting:
        largest = min(plans, key=lambda plan: plan.num_nodes)
        shards = MAX_NODES // (1 + replicas_per_shard)
        gigabytes = shards * largest.node_type.bandwidth_bytes_per_second / 10**9
        raise ConfigError(
            "cache.l2",
            f"bandwidth {bandwidth_bytes_per_second / 10**9:g}GB/s, size {format_bytes(size_bytes)}",
            f"at most {gigabytes:g}GB/s and {shards * usable_bytes(largest.node_type) // 2**30}Gi: "
            f"{shards} shards of {largest.node_type.name} with {replicas_per_shard} replicas each are the "
            f"{MAX_NODES} nodes that one cluster may have",
        )
    least_bytes = min(_memory_bytes(plan) for plan in fitting)
    worth_it = [plan for plan in fitting if _memory_bytes(plan) <= least_bytes * WORTH_FEWER_SHARDS_RATIO]
    return min(worth_it, key=lambda plan: (plan.num_shards, _memory_bytes(plan)))


def _memory_bytes(plan: StorePlan) -> int:
    return plan.num_nodes * plan.node_type.memory_bytes


def _num_shards(node: CacheNodeType, bandwidth_bytes_per_second: int, size_bytes: int) -> int:
    return max(
        math.ceil(bandwidth_bytes_per_second / node.bandwidth_bytes_per_second),
        math.ceil(size_bytes / usable_bytes(node)),
    )
