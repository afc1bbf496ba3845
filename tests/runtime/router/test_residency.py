"""The prefix index: it remembers, within its memory, and forgets the right things."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.residency import ENTRY_BYTES, Residency

PROMPTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 12)), min_size=1, max_size=60
)


def prompt(family: int, num_blocks: int) -> Sequence[int]:
    """The first two blocks are everybody's, the rest the family's."""
    return tuple(range(2))[:num_blocks] + tuple(100 * (family + 1) + i for i in range(2, num_blocks))


def test_prompt_sent_is_held_by_that_replica_alone() -> None:
    residency = Residency(1 << 20)

    residency.record("a", (1, 2, 3))

    assert residency.num_prefix_blocks("a", (1, 2, 9)) == 2
    assert residency.num_prefix_blocks("b", (1, 2, 3)) == 0
    assert residency.num_prefix_blocks("a", ()) == 0


@given(PROMPTS, st.integers(1, 20))
def test_no_block_is_held_without_those_before_it(sent: list[tuple[str, int, int]], capacity: int) -> None:
    residency = Residency(capacity * 2 * ENTRY_BYTES)

    for url, family, num_blocks in sent:
        residency.record(url, prompt(family, num_blocks))

    for url in "ab":
        for family in range(4):
            blocks = prompt(family, 12)
            held = [residency.num_prefix_blocks(url, (block,)) for block in blocks]
            assert residency.num_prefix_blocks(url, blocks) == sum(held)
            assert held == sorted(held, reverse=True)


@given(PROMPTS, st.integers(1, 20))
def test_memory_stays_within_its_bound(sent: list[tuple[str, int, int]], capacity: int) -> None:
    residency = Residency(capacity * ENTRY_BYTES)

    for url, family, num_blocks in sent:
        residency.record(url, prompt(family, num_blocks))
        assert residency.size_bytes <= residency.capacity_bytes


def test_what_was_not_used_for_longest_is_forgotten_first() -> None:
    residency = Residency(3 * ENTRY_BYTES)
    for blocks in ((1,), (2,), (3,), (1,), (4,)):
        residency.record("a", blocks)

    assert [residency.num_prefix_blocks("a", (block,)) for block in (1, 2, 3, 4)] == [1, 0, 1, 1]


def test_replica_that_restarted_holds_nothing() -> None:
    residency = Residency(1 << 20)
    residency.record("a", (1, 2))

    residency.forget("a")

    assert residency.num_prefix_blocks("a", (1, 2)) == 0
    assert residency.size_bytes == 0


@pytest.mark.parametrize("num_replicas", [1, 8, 200])
def test_replicas_share_the_memory(num_replicas: int) -> None:
    residency = Residency(1000 * ENTRY_BYTES)

    for number in range(num_replicas):
        for start in range(0, 3000, 100):
            residency.record(str(number), tuple(range(start, start + 100)))

    assert residency.size_bytes <= residency.capacity_bytes
    assert residency.num_prefix_blocks("0", tuple(range(2900, 3000))) > 0
