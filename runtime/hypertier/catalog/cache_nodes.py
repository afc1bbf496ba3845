"""ElastiCache node types for Valkey, and what one node has.

Memory is the node's `maxmemory` before the reserved share, bandwidth its baseline: what it sustains, not its
bursts. All of them take Valkey from 7.2 on; which Regions have a family differs.
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

    @property
    def family(self) -> str:
        """`r7g` of `cache.r7g.large`."""
        return self.name.split(".")[1]


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
        _row("cache.r8g.large", 14.18, 0.937),
        _row("cache.r8g.xlarge", 29.68, 1.875),
        _row("cache.r8g.2xlarge", 61.33, 3.75),
        _row("cache.r8g.4xlarge", 124.65, 7.5),
        _row("cache.r8g.8xlarge", 251.27, 15),
        _row("cache.r8g.12xlarge", 377.9, 22.5),
        _row("cache.r8g.16xlarge", 504.52, 30),
        # Optimized for network: a sixth of the memory for six times the bandwidth.
        _row("cache.c7gn.large", 3.09, 6.25),
        _row("cache.c7gn.xlarge", 6.38, 12.5),
        _row("cache.c7gn.2xlarge", 12.94, 25),
        _row("cache.c7gn.4xlarge", 26.05, 50),
        _row("cache.c7gn.8xlarge", 52.26, 100),
        _row("cache.c7gn.12xlarge", 78.56, 150),
        _row("cache.c7gn.16xlarge", 105.81, 200),
        _row("cache.c8gn.large", 3.1, 6.25),
        _row("cache.c8gn.xlarge", 6.79, 12.5),
        _row("cache.c8gn.2xlarge", 14.18, 25),
        _row("cache.c8gn.4xlarge", 29.68, 50),
        _row("cache.c8gn.8xlarge", 61.33, 100),
        _row("cache.c8gn.12xlarge", 92.99, 150),
        _row("cache.c8gn.16xlarge", 124.65, 200),
    )
}
FAMILIES = tuple(dict.fromkeys(row.family for row in CACHE_NODE_TYPES.values()))
DEFAULT_FAMILY = "r7g"


def nodes_of(family: str) -> tuple[CacheNodeType, ...]:
    """The node types of one family, smallest first; none where the catalog has no such family."""
    return tuple(row for row in CACHE_NODE_TYPES.values() if row.family == family)
