"""Tiered storage by an amount: so much at least of each node that engines run on."""

from __future__ import annotations

import pytest

from hypertier.catalog.instance_types import GIB, find_instance_type
from hypertier.errors import ConfigError
from hypertier.spec.cache_tiers import L2
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.tiered_memory import memory_percent_of

SYSTEM = InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=3)
SMALL = InstanceGroup(name="small", instance_type="ml.g5.12xlarge", count=2)
LARGE = InstanceGroup(name="large", instance_type="ml.p5.48xlarge", count=1)


@pytest.mark.parametrize("amount", ["1Gi", "19Gi", "38Gi", "96Gi", "192Gi"])
def test_each_node_with_gpus_gives_so_much_at_least(amount: str) -> None:
    percent = memory_percent_of(L2(memory=amount), [SYSTEM, LARGE, SMALL])

    node = find_instance_type(SMALL.instance_type)
    assert node is not None
    wanted = int(amount.removesuffix("Gi")) * GIB
    assert (percent - 1) * node.memory_bytes < wanted * 100 <= percent * node.memory_bytes


@pytest.mark.parametrize(
    ("l2", "groups", "expected"),
    [
        pytest.param(L2(), [SYSTEM, SMALL], 20, id="without an amount"),
        pytest.param(L2(memory_percent=30), [SMALL], 30, id="by a percentage"),
        pytest.param(L2(memory="32Gi"), [SYSTEM], 50, id="nodes without GPUs alone"),
    ],
)
def test_the_percentage_is_what_aws_takes(l2: L2, groups: list[InstanceGroup], expected: int) -> None:
    assert memory_percent_of(l2, groups) == expected


@pytest.mark.parametrize(
    ("amount", "group", "message"),
    [
        pytest.param("193Gi", SMALL, r"expected at most 192Gi, as a node of ml\.g5\.12xlarge has", id="more"),
        pytest.param(
            "1Gi",
            InstanceGroup(name="new", instance_type="ml.z9.metal", count=1),
            r"expected cache\.l2\.memoryPercent instead: .* memory of ml\.z9\.metal",
            id="an unknown type",
        ),
    ],
)
def test_what_no_node_can_give_is_refused(amount: str, group: InstanceGroup, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"cache\.l2\.memory is '{amount}'; {message}"):
        memory_percent_of(L2(memory=amount), [group])
