"""ElastiCache's node types against what its pages list for Valkey."""

from __future__ import annotations

import pytest

from hypertier.catalog.cache_nodes import CACHE_NODE_TYPES

# https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ParameterGroups.Engine.html, maxmemory in bytes
MAXMEMORY_BYTES = {
    "cache.r7g.large": 14037181030,
    "cache.r7g.xlarge": 28261849702,
    "cache.r7g.2xlarge": 56711183565,
    "cache.r7g.4xlarge": 113609865216,
    "cache.r7g.8xlarge": 225000375228,
    "cache.r7g.12xlarge": 341206346547,
    "cache.r7g.16xlarge": 450000750456,
}


def test_every_node_type_has_a_published_memory() -> None:
    assert CACHE_NODE_TYPES.keys() == MAXMEMORY_BYTES.keys()


@pytest.mark.parametrize(("name", "maxmemory_bytes"), MAXMEMORY_BYTES.items(), ids=MAXMEMORY_BYTES)
def test_a_node_s_memory_is_its_maxmemory_to_a_thousandth(name: str, maxmemory_bytes: int) -> None:
    assert CACHE_NODE_TYPES[name].memory_bytes == pytest.approx(maxmemory_bytes, rel=0.001)
