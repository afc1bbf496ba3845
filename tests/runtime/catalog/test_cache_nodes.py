"""ElastiCache's node types against what its pages list for Valkey."""

from __future__ import annotations

import pytest

from hypertier.catalog.cache_nodes import CACHE_NODE_TYPES, FAMILIES, nodes_of

# https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ParameterGroups.Engine.html, maxmemory in bytes
MAXMEMORY_BYTES = {
    "cache.r7g.large": 14037181030,
    "cache.r7g.xlarge": 28261849702,
    "cache.r7g.2xlarge": 56711183565,
    "cache.r7g.4xlarge": 113609865216,
    "cache.r7g.8xlarge": 225000375228,
    "cache.r7g.12xlarge": 341206346547,
    "cache.r7g.16xlarge": 450000750456,
    "cache.r8g.large": 15222495510,
    "cache.r8g.xlarge": 31866224640,
    "cache.r8g.2xlarge": 65856864256,
    "cache.r8g.4xlarge": 133838143488,
    "cache.r8g.8xlarge": 269800701952,
    "cache.r8g.12xlarge": 405763260416,
    "cache.r8g.16xlarge": 541725818880,
    "cache.c7gn.large": 3317862236,
    "cache.c7gn.xlarge": 6854542746,
    "cache.c7gn.2xlarge": 13891921715,
    "cache.c7gn.4xlarge": 27966669210,
    "cache.c7gn.8xlarge": 56116178125,
    "cache.c7gn.12xlarge": 84357985997,
    "cache.c7gn.16xlarge": 113609865216,
}
# In GiB, by CacheNodes.SupportedTypes.html: the page of parameters lists them in another way.
MEMORY_GIB = {
    "cache.c8gn.large": 3.1,
    "cache.c8gn.xlarge": 6.79,
    "cache.c8gn.2xlarge": 14.18,
    "cache.c8gn.4xlarge": 29.68,
    "cache.c8gn.8xlarge": 61.33,
    "cache.c8gn.12xlarge": 92.99,
    "cache.c8gn.16xlarge": 124.65,
}


def test_every_node_type_has_a_published_memory() -> None:
    assert CACHE_NODE_TYPES.keys() == MAXMEMORY_BYTES.keys() | MEMORY_GIB.keys()


@pytest.mark.parametrize(("name", "maxmemory_bytes"), MAXMEMORY_BYTES.items(), ids=MAXMEMORY_BYTES)
def test_a_node_s_memory_is_its_maxmemory_to_a_thousandth(name: str, maxmemory_bytes: int) -> None:
    assert CACHE_NODE_TYPES[name].memory_bytes == pytest.approx(maxmemory_bytes, rel=0.001)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_grows_in_memory_and_bandwidth_alike(family: str) -> None:
    nodes = nodes_of(family)

    assert len(nodes) == 7
    assert list(nodes) == sorted(nodes, key=lambda node: node.memory_bytes)
    assert list(nodes) == sorted(nodes, key=lambda node: node.bandwidth_bytes_per_second)
