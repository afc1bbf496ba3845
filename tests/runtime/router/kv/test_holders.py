from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.kv.holders import Holders, members

PROMPTS = st.lists(st.integers(0, 3), max_size=12).map(
    lambda path: tuple(hash(tuple(path[: i + 1])) for i in range(len(path)))
)
"""Prompts as block hashes: every hash covers all before it, and many prompts begin alike."""


def test_replicas_are_grouped_by_how_much_they_hold() -> None:
    holders = Holders()
    holders.record(0, (1, 2, 3), 100)
    holders.record(1, (1, 2), 100)
    holders.record(2, (1, 2, 9), 100)

    assert holders.groups((1, 2, 3, 4)) == [(3, 0b001), (2, 0b110)]
    assert holders.groups((7,)) == []
    assert holders.groups(()) == []


def test_what_was_used_longest_ago_is_forgotten_first_and_ends_first() -> None:
    holders = Holders()
    holders.record(0, (1, 2, 3), 4)

    holders.record(0, (1, 8, 9), 4)

    assert holders.groups((1, 2, 3)) == [(2, 0b1)]
    assert holders.groups((1, 8, 9)) == [(3, 0b1)]


def test_engines_say_what_they_hold() -> None:
    holders = Holders()
    holders.stored(3, (1, 2))
    holders.removed(3, (2,))

    assert holders.groups((1, 2)) == [(1, 0b1000)]


def test_a_replica_that_is_gone_holds_nothing_and_costs_nothing() -> None:
    holders = Holders()
    holders.record(0, (1, 2), 10)
    holders.forget(0)

    assert holders.groups((1,)) == []
    assert len(holders) == 0


@given(st.lists(st.tuples(st.integers(0, 4), PROMPTS), max_size=20), PROMPTS, st.integers(1, 12))
def test_groups_say_what_counting_block_by_block_says(
    sent: list[tuple[int, tuple[int, ...]]], prompt: tuple[int, ...], capacity: int
) -> None:
    holders = Holders()
    plain: dict[int, list[int]] = {replica: [] for replica in range(5)}
    for replica, blocks in sent:
        holders.record(replica, blocks, capacity)
        used = [block for block in plain[replica] if block not in blocks] + list(reversed(blocks))
        plain[replica] = used[-capacity:]

    groups = holders.groups(prompt)

    told = {replica: blocks for blocks, mask in groups for replica in members(mask)}
    for replica, used in plain.items():
        count = next((i for i, block in enumerate(prompt) if block not in used), len(prompt))
        assert told.get(replica, 0) == count
    assert [blocks for blocks, _ in groups] == sorted({blocks for blocks, _ in groups}, reverse=True)


@given(st.lists(st.integers(0, 7), max_size=12))
def test_engines_that_hold_what_they_can_not_are_grouped_somehow(masks: list[int]) -> None:
    holders = Holders()
    for block, mask in enumerate(masks):
        for replica in members(mask):
            holders.stored(replica, [block])

    groups = holders.groups(range(len(masks)))

    assert all(1 <= num <= len(masks) for num, _ in groups)


def test_blocks_that_go_by_other_names_are_found_by_these() -> None:
    holders = Holders()
    holders.stored(0, [10, 20])
    holders.stored(1, [10])

    assert holders.groups([1, 2, 3], {1: 10, 2: 20, 3: 0}) == [(2, 0b01), (1, 0b10)]
    assert holders.groups([1, 2, 3], {2: 20}) == []


@given(st.sets(st.integers(0, 600)))
def test_members_are_the_bits(replicas: set[int]) -> None:
    assert list(members(sum(1 << replica for replica in replicas))) == sorted(replicas)
