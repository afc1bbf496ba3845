"""What replicas were sent is remembered as counting block by block would, and within its bounds."""

from __future__ import annotations

import math
import random
import tracemalloc
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.kv.holders import members
from hypertier.router.strategies.loads import AS_BELIEVED, LESS, MORE
from hypertier.router.strategies.prefixes import BLOCK_BYTES, RUN_BYTES, RUNS_AT_ONCE, SHRINK, Prefixes

UNITS = range(100)
GROWING = (0, 1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66, 78, 91)
PROMPTS = st.lists(st.integers(0, 2), max_size=12).map(
    lambda path: tuple(hash(tuple(path[: i + 1])) for i in range(len(path)))
)
"""Prompts as block hashes: every hash covers all before it, and many prompts begin alike."""


def chain_of(number: int) -> tuple[int, ...]:
    """A prompt of ten blocks that shares none with another's."""
    return tuple(range(100 * number, 100 * number + 10))


def tidied(prefixes: Prefixes) -> Prefixes:
    """With nothing put off."""
    while prefixes.tidy(1):
        pass
    return prefixes


def told(prefixes: Prefixes, prompt: tuple[int, ...]) -> dict[int, int]:
    """How many of its blocks each replica holds."""
    return {replica: num for num, mask in prefixes.groups(prompt) for replica in members(mask)}


def test_replicas_are_grouped_by_how_much_they_hold() -> None:
    prefixes = Prefixes(UNITS)
    prefixes.record(0, (1, 2, 3), 100)
    prefixes.record(1, (1, 2), 100)
    prefixes.record(2, (1, 2, 9), 100)

    assert prefixes.groups((1, 2, 3, 4)) == [(3, 0b001), (2, 0b110)]
    assert prefixes.groups((1, 5)) == [(1, 0b111)]
    assert prefixes.groups((7,)) == []
    assert prefixes.groups(()) == []


def test_a_prompt_goes_on_where_one_ended_that_the_same_replica_was_sent() -> None:
    prompts = Prefixes(UNITS)

    def goes_on(replica: int, *block_hashes: int) -> bool:
        return prompts.record(replica, block_hashes, math.inf)

    assert not goes_on(0, 1, 2)
    assert goes_on(0, 1, 2, 3), "where the last run grows"
    assert not goes_on(0, 1, 2, 3), "no further than before"
    assert not goes_on(0, 1, 7), "it parts from the others before they end"
    assert goes_on(0, 1, 7, 8)
    assert not goes_on(1, 1, 2, 3, 4), "another replica's"
    assert goes_on(0, 1, 2, 3, 4)


def test_what_was_used_longest_ago_is_forgotten_first_and_ends_first() -> None:
    prefixes = Prefixes(UNITS)
    prefixes.record(0, (1, 2, 3), 4)

    prefixes.record(0, (1, 8, 9), 4)

    assert prefixes.groups((1, 2, 3)) == [(2, 0b1)]
    assert prefixes.groups((1, 8, 9)) == [(3, 0b1)]


def test_beginnings_that_were_missing_say_that_a_replica_keeps_less_than_it_tells() -> None:
    prefixes = Prefixes(UNITS)
    for number in range(20):
        prefixes.record(0, chain_of(number), 1000)
        prefixes.record(1, chain_of(number), 1000)

    prefixes.correct(0, LESS, 10)
    for number in range(20, 25):
        prefixes.record(0, chain_of(number), 1000)

    assert prefixes.size(0) <= 200 * SHRINK
    assert prefixes.size(1) == 200
    assert prefixes.groups(chain_of(24)) == [(10, 0b1)]


def test_a_replica_is_always_taken_to_keep_a_whole_prompt_and_by_and_by_more_again() -> None:
    prefixes = Prefixes(UNITS)
    for number in range(10):
        prefixes.record(0, chain_of(number), 1000)

    for _ in range(100):
        prefixes.correct(0, LESS, 10)
    prefixes.record(0, chain_of(1), 1000)
    least = prefixes.size(0)
    for _ in range(30):
        prefixes.correct(0, MORE, 10)
    for number in range(10):
        prefixes.record(0, chain_of(number), 1000)

    assert least == 10
    assert prefixes.size(0) == 100


def test_confirmed_beginnings_undo_a_few_that_were_missing() -> None:
    prefixes = Prefixes(UNITS)
    for number in range(10):
        prefixes.record(0, chain_of(number), 100)

    prefixes.correct(0, LESS, 10)
    for _ in range(40):
        prefixes.correct(0, AS_BELIEVED, 10)
    for number in range(10):
        prefixes.record(0, chain_of(number), 100)

    assert prefixes.size(0) == 100


def test_a_replica_that_began_anew_is_believed_again() -> None:
    prefixes = Prefixes(UNITS)
    prefixes.record(0, chain_of(0), 100)
    prefixes.correct(0, LESS, 10)

    prefixes.forget(0)
    prefixes.correct(0, LESS, 10)
    for number in range(10):
        prefixes.record(0, chain_of(number), 100)

    assert prefixes.size(0) == 100


def test_a_replica_that_is_gone_holds_nothing_and_costs_nothing() -> None:
    prefixes = Prefixes(UNITS)
    prefixes.record(0, (1, 2), 10)
    prefixes.record(1, (1,), 10)
    prefixes.forget(0)
    prefixes.forget(1)

    assert prefixes.groups((1,)) == []
    tidied(prefixes)
    assert (len(prefixes), prefixes.num_blocks, prefixes.num_bytes) == (0, 0, 0)


class Plain:
    """One replica's blocks, each with its size, what was used longest ago first."""

    def __init__(self) -> None:
        self.blocks: dict[int, float] = {}

    def record(self, prompt: tuple[int, ...], capacity: float, rest: float) -> None:
        for i, block in reversed(list(enumerate(prompt))):
            self.blocks.pop(block, None)
            self.blocks[block] = GROWING[i + 1] - GROWING[i] + (rest if i == len(prompt) - 1 else 0)
        while sum(self.blocks.values()) > capacity:
            del self.blocks[next(iter(self.blocks))]

    def num_held(self, prompt: tuple[int, ...]) -> int:
        return next((i for i, block in enumerate(prompt) if block not in self.blocks), len(prompt))


def held_plainly(plain: list[Plain], prompt: tuple[int, ...]) -> dict[int, int]:
    return {i: num for i, one in enumerate(plain) if (num := one.num_held(prompt))}


SENT = st.tuples(st.integers(0, 3), PROMPTS, st.integers(0, 5), st.booleans())


@given(st.lists(SENT, max_size=40), st.lists(PROMPTS, max_size=6), st.integers(1, 150))
def test_groups_say_what_counting_block_by_block_says(
    sent: list[tuple[int, tuple[int, ...], int, bool]], prompts: list[tuple[int, ...]], capacity: int
) -> None:
    prefixes = Prefixes(GROWING)
    plain = [Plain() for _ in range(4)]
    for replica, prompt, rest, forgets in sent:
        if forgets:
            prefixes.forget(replica)
            plain[replica].blocks.clear()
        if prompt:
            prefixes.record(replica, prompt, capacity, rest=rest)
            plain[replica].record(prompt, capacity, rest)

    for prompt in [*prompts, *(prompt for _, prompt, _, _ in sent)]:
        groups = prefixes.groups(prompt)

        assert told(prefixes, prompt) == held_plainly(plain, prompt)
        assert [num for num, _ in groups] == sorted({num for num, _ in groups}, reverse=True)
    assert prefixes.num_blocks == sum(len(one.blocks) for one in plain)


PUT_OFF = st.tuples(st.sampled_from(["send", "send", "forget", "tidy", "bound"]), st.integers(0, 3), PROMPTS)


@given(st.lists(PUT_OFF, max_size=60), st.integers(0, 2))
def test_what_is_forgotten_and_not_yet_tidied_is_held_by_nobody(
    steps: list[tuple[str, int, tuple[int, ...]]], runs_at_once: int
) -> None:
    """As if it was dropped at once, block by block, however much is left to do."""
    prefixes, eager = Prefixes(GROWING, runs_at_once=runs_at_once), Prefixes(GROWING)
    plain = [Plain() for _ in range(4)]

    for what, replica, prompt in steps:
        if what == "forget":
            prefixes.forget(replica)
            eager.forget(replica)
            tidied(eager)
            plain[replica].blocks.clear()
        elif what == "tidy":
            prefixes.tidy(1 + replica)
        elif what == "bound":
            prefixes.bound(math.inf)
        elif prompt:
            goes_on = prefixes.record(replica, prompt, math.inf)
            assert goes_on == eager.record(replica, prompt, math.inf)
            plain[replica].record(prompt, math.inf, 0)

        for _, _, other in steps:
            assert told(prefixes, other) == held_plainly(plain, other)

    assert prefixes.num_blocks == sum(len(one.blocks) for one in plain)
    counted = sum(one.num_runs for one in chain(prefixes._used.values(), *prefixes._gone.values()))
    assert counted == sum(run.mask.bit_count() for run in prefixes._runs.values())
    for replica in range(4):
        prefixes.forget(replica)
    tidied(prefixes)
    assert (len(prefixes), prefixes.num_bytes, prefixes._gone_mask) == (0, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 3), PROMPTS.filter(len)), max_size=40), st.integers(1, 60))
def test_what_is_too_much_and_put_off_is_at_last_what_is_dropped_at_once(
    sent: list[tuple[int, tuple[int, ...]]], capacity: int
) -> None:
    prefixes = Prefixes(GROWING, runs_at_once=1)
    plain = [Plain() for _ in range(4)]

    for replica, prompt in sent:
        prefixes.record(replica, prompt, capacity)
        plain[replica].record(prompt, capacity, 0)
    tidied(prefixes)

    for _, prompt in sent:
        assert told(prefixes, prompt) == held_plainly(plain, prompt)


def full(num_replicas: int = 1, num_prompts: int = 2000) -> Prefixes:
    """Prompts that part behind their first block, in turn sent to replicas."""
    prefixes = Prefixes(range(5000))
    for number in range(num_prompts):
        prefixes.record(number % num_replicas, (1, *range(10 * number + 10, 10 * number + 14)), math.inf)
    return prefixes


@pytest.mark.parametrize("put_off", ["forget", "bound", "less-memory", "less-capacity"])
def test_no_more_than_some_runs_are_dropped_at_once(put_off: str) -> None:
    """Counted, not timed: the event loop does nothing else meanwhile."""
    prefixes = full()
    before = len(prefixes)

    if put_off == "forget":
        prefixes.forget(0)
    elif put_off == "bound":
        prefixes.bound(1000)
    elif put_off == "less-memory":
        prefixes.record(0, (1, 2), math.inf, max_bytes=2000)
    else:
        prefixes.record(0, (1, 2), 10)
    dropped = [before - len(prefixes)]
    while prefixes.is_behind:
        left = len(prefixes)
        prefixes.tidy(100)
        dropped.append(left - len(prefixes))

    assert max(dropped) <= 2 * RUNS_AT_ONCE + 4
    assert len(dropped) > 2000 / (100 + 4)
    assert len(prefixes) <= 4


def test_a_run_that_many_hold_and_that_parts_has_no_more_than_some_of_them_bounded_at_once() -> None:
    prefixes = Prefixes(range(5000))
    share = 2 * (RUN_BYTES + 3 * BLOCK_BYTES)
    for replica in range(1000):
        for prompt in ((1, 2, 3), (10 * replica + 10, 10 * replica + 11, 10 * replica + 12)):
            prefixes.record(replica, prompt, math.inf, max_bytes=share)
    before = len(prefixes)

    prefixes.record(0, (1, 2, 9), math.inf, max_bytes=share)

    assert before - len(prefixes) <= 2 * RUNS_AT_ONCE
    assert prefixes.is_behind
    tidied(prefixes)
    assert prefixes.num_bytes <= 1000 * share


def test_memory_does_not_grow_while_there_is_more_to_forget() -> None:
    """However often a replica restarts, and whatever it is sent: prompts tidy more than they bring."""
    prefixes = full(num_replicas=4)
    most = prefixes.num_bytes

    for number in range(1000):
        prefixes.forget(number % 4)
        prompt = (2, *range(-14 * number - 14, -14 * number))
        prefixes.record(number % 4, prompt, math.inf)
        assert prefixes.num_bytes <= most + RUN_BYTES + 15 * BLOCK_BYTES

    assert prefixes.num_bytes < most / 10


@given(st.lists(st.tuples(st.integers(0, 3), PROMPTS.filter(len)), max_size=40), st.integers(0, 8000))
def test_memory_is_bounded_for_all_replicas_and_the_latest_prompt_stays_longest(
    sent: list[tuple[int, tuple[int, ...]]], max_bytes: int
) -> None:
    prefixes = Prefixes(UNITS)

    for replica, prompt in sent:
        prefixes.record(replica, prompt, 1e9, max_bytes=max_bytes)

        used = prefixes._used.get(replica)
        num_held = sum(num for num, mask in prefixes.groups(prompt) if mask >> replica & 1)
        assert all(each.num_bytes <= max_bytes for each in prefixes._used.values())
        assert used is None or num_held in (len(prompt), used.num_blocks)


def test_a_replica_that_is_sent_nothing_keeps_no_more_than_its_share() -> None:
    prefixes = Prefixes(UNITS)
    for number in range(50):
        prefixes.record(0, tuple(range(100 * number, 100 * number + 40)), 1e9)

    prefixes.bound(10_000)
    tidied(prefixes)

    assert 0 < prefixes.num_bytes <= 10_000
    assert prefixes.groups(tuple(range(4900, 4940))) == [(40, 0b1)]


WILD = st.lists(st.integers(0, 6), min_size=1, max_size=8).map(tuple)


@given(st.lists(st.tuples(st.integers(0, 2), WILD, st.booleans()), max_size=60), st.integers(1, 12))
def test_hashes_that_are_no_chain_do_no_harm(
    sent: list[tuple[int, tuple[int, ...], bool]], capacity: int
) -> None:
    """As of a router whose blocks have other sizes."""
    prefixes = Prefixes(UNITS)

    for replica, prompt, forgets in sent:
        if forgets:
            prefixes.forget(replica)
        prefixes.record(replica, prompt, capacity, max_bytes=2000)

        assert all(0 < num <= len(prompt) for num, _ in prefixes.groups(prompt))

    for replica in range(3):
        prefixes.forget(replica)
    tidied(prefixes)
    assert (len(prefixes), prefixes.num_bytes) == (0, 0)

    chained = tuple(range(100, 103))
    prefixes.record(0, chained, 100)
    assert prefixes.groups(chained) == [(3, 0b1)]


@pytest.mark.parametrize(("num_blocks", "num_replicas"), [(1, 1), (9, 1), (9, 64), (29, 4), (101, 16)])
def test_memory_is_no_more_than_it_says(num_blocks: int, num_replicas: int) -> None:
    """Of prompts whose first third others have in common, each sent to one replica."""
    draw = random.Random(1)
    prefixes = Prefixes(UNITS if num_blocks < 100 else range(1000))
    shared = [[draw.getrandbits(64) for _ in range(num_blocks // 3)] for _ in range(8)]
    tracemalloc.start()
    try:
        for number in range(60_000 // (num_blocks + 8)):
            prompt = [
                *shared[number % 8],
                *(draw.getrandbits(64) for _ in range(num_blocks - num_blocks // 3)),
            ]
            prefixes.record(number % num_replicas, tuple(prompt), 1e12)
        took = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert took <= prefixes.num_bytes
