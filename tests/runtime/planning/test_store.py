"""The arithmetic of L2: shards and node type from bandwidth and size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.catalog.cache_nodes import CACHE_NODE_TYPES
from hypertier.errors import ConfigError
from hypertier.planning.store import MAX_NODES, plan_store, usable_bytes

GIB = 2**30
GB = 10**9
LARGEST = CACHE_NODE_TYPES["cache.r7g.16xlarge"]


@pytest.mark.parametrize(
    ("bandwidth", "size", "node_type", "num_shards"),
    [
        pytest.param(8 * GB, 2048 * GIB, "cache.r7g.16xlarge", 7, id="much to hold: the size decides"),
        pytest.param(10 * GB, 10 * GIB, "cache.r7g.4xlarge", 11, id="much to deliver: the bandwidth decides"),
        pytest.param(100 * 10**6, GIB, "cache.r7g.large", 1, id="little: the smallest node"),
    ],
)
def test_the_smallest_store_that_does_it_is_planned(
    bandwidth: int, size: int, node_type: str, num_shards: int
) -> None:
    plan = plan_store(bandwidth, size)

    assert (plan.node_type.name, plan.num_shards) == (node_type, num_shards)


@given(
    bandwidth=st.integers(1, 45 * LARGEST.bandwidth_bytes_per_second),
    size=st.integers(1, 45 * usable_bytes(LARGEST)),
)
def test_a_plan_gives_what_was_asked_for_within_one_cluster(bandwidth: int, size: int) -> None:
    plan = plan_store(bandwidth, size)

    assert plan.bandwidth_bytes_per_second >= bandwidth
    assert plan.size_bytes >= size
    assert plan.num_nodes <= MAX_NODES


@given(
    bandwidth=st.integers(1, 45 * LARGEST.bandwidth_bytes_per_second),
    size=st.integers(1, 45 * usable_bytes(LARGEST)),
)
def test_a_plan_holds_no_shard_too_many(bandwidth: int, size: int) -> None:
    plan = plan_store(bandwidth, size)

    fewer = plan.num_shards - 1
    assert (
        fewer * plan.node_type.bandwidth_bytes_per_second < bandwidth
        or fewer * usable_bytes(plan.node_type) < size
    )


@given(size=st.integers(1, 22 * usable_bytes(LARGEST)), more=st.integers(0, 22 * usable_bytes(LARGEST)))
def test_more_to_hold_never_takes_a_tenth_less_memory(size: int, more: int) -> None:
    small, large = plan_store(GB, size), plan_store(GB, size + more)

    assert (
        large.num_nodes * large.node_type.memory_bytes * 1.1 >= small.num_nodes * small.node_type.memory_bytes
    )


def test_replicas_add_nodes_and_no_bandwidth() -> None:
    one, two = plan_store(8 * GB, 400 * GIB), plan_store(8 * GB, 400 * GIB, replicas_per_shard=2)

    assert two.bandwidth_bytes_per_second == one.bandwidth_bytes_per_second
    assert two.num_nodes * 2 == one.num_nodes * 3


@pytest.mark.parametrize(
    ("bandwidth", "size", "replicas", "setting"),
    [
        pytest.param(0, GIB, 1, "cache.l2.bandwidth", id="no bandwidth"),
        pytest.param(-5, GIB, 1, "cache.l2.bandwidth", id="negative bandwidth"),
        pytest.param(GB, 0, 1, "cache.l2.size", id="no size"),
        pytest.param(GB, GIB, 6, "replicas_per_shard", id="more replicas than ElastiCache allows"),
        pytest.param(GB, GIB, -1, "replicas_per_shard", id="negative replicas"),
        pytest.param(46 * LARGEST.bandwidth_bytes_per_second, GIB, 1, "cache.l2", id="too fast"),
        pytest.param(GB, 46 * usable_bytes(LARGEST), 1, "cache.l2", id="too large"),
    ],
)
def test_a_store_that_cannot_be_is_refused_with_the_setting(
    bandwidth: int, size: int, replicas: int, setting: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_store(bandwidth, size, replicas_per_shard=replicas)

    assert refused.value.setting == setting


def test_the_refusal_says_what_one_cluster_gives_at_most() -> None:
    with pytest.raises(ConfigError, match=r"45 shards of cache.r7g.16xlarge with 1 replicas each are the 90"):
        plan_store(GB, 46 * usable_bytes(LARGEST))


def test_a_family_for_bandwidth_needs_fewer_nodes_for_it() -> None:
    by_memory, by_network = plan_store(40 * GB, GIB), plan_store(40 * GB, GIB, family="c7gn")

    assert by_network.node_type.family == "c7gn"
    assert by_network.num_nodes < by_memory.num_nodes


def test_a_family_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cache\.l2\.nodeFamily is 'x1'; expected r7g or r8g or c7gn"):
        plan_store(GB, GIB, family="x1")
