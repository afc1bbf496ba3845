"""ElastiCache node types for Valkey, and what one node has.

Memory is the node's `maxmemory` before the reserved share, bandwidth its baseline: what it sustains, not its
bursts.
https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/CacheNodes.SupportedTypes.html (read 2026-12-01)
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class CacheNodeType:
    """One node: memory in bytes, sustained bandwidth in bytes per second."""

    name: str
    memory_bytes: int
    bandwidth_bytes_per_second: int


def _row(name: str, memory_gib: float, gigabits_per_second: float) -> CacheNodeType:
    return CacheNodeType(name, int(memory_gib * GIB), int(gigabits_per_second * 10**9 / 8))


CACHE_NODE_TYPES = {
    row.name: row
    for row in (
        _row("cache.r7g.large", 13.07, 0.937),
        _row("cache.r7g.xlarge", 26.32, 1.876),
        _row("cache.r7g.2xlarge", 52.82, 3.75),
        _row("cache.r7g.4xlarge", 105.81, 7.5),
        _row("cache.r7g.8xlarge", 209.55, 15),
        _row("cache.r7g.12xlarge", 317.77, 22.5),
        _row("cache.r7g.16xlarge", 419.09, 30),
    )
}
