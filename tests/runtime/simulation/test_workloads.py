from __future__ import annotations

import pytest

from hypertier.simulation.trace import BLOCK_TOKENS
from hypertier.simulation.workloads import WORKLOADS

EVERY = pytest.mark.parametrize("name", WORKLOADS)


@EVERY
def test_a_seed_makes_one_workload_and_another_seed_another(name: str) -> None:
    assert WORKLOADS[name](3, 200) == WORKLOADS[name](3, 200)
    assert WORKLOADS[name](3, 200) != WORKLOADS[name](4, 200)


@EVERY
def test_a_workload_is_as_asked_and_well_formed(name: str) -> None:
    requests = WORKLOADS[name](1, 400)

    assert len(requests) == 400
    assert [request.at for request in requests] == sorted(request.at for request in requests)
    for request in requests:
        assert len(request.blocks) == -(-request.input_tokens // BLOCK_TOKENS)
        assert request.output_tokens >= 1
        assert request.session


@EVERY
def test_a_block_always_stands_behind_the_same_blocks(name: str) -> None:
    before: dict[int, tuple[int, ...]] = {}
    for request in WORKLOADS[name](1, 400):
        for i, block in enumerate(request.blocks):
            assert before.setdefault(block, request.blocks[:i]) == request.blocks[:i]


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        pytest.param("conversation", 0.5, 0.8, id="chats share their history"),
        pytest.param("agent", 0.85, 0.95, id="agents share tools and history"),
        pytest.param("document", 0.8, 0.95, id="questions share the document"),
        pytest.param("multi_round", 0.7, 0.9, id="rounds share a long history"),
        pytest.param("shared_system_prompt", 0.6, 0.8, id="questions share the system prompt"),
    ],
)
def test_a_cache_without_end_would_find_this_much(name: str, least: float, most: float) -> None:
    requests = WORKLOADS[name](1, 3000)
    seen: set[int] = set()
    found = total = 0

    for request in requests:
        found += sum(BLOCK_TOKENS for block in request.blocks if block in seen)
        total += request.input_tokens
        seen.update(request.blocks[: request.input_tokens // BLOCK_TOKENS])

    assert least <= found / total <= most
