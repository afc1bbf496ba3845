"""What the index believes of replicas is what they said."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import msgspec
import pytest
from fakes_kv_events import BATCHES
from hypothesis import example, given
from hypothesis import strategies as st

from hypertier.errors import KvEventError
from hypertier.router.kv.kv_events import Cleared, Removed, Stored, chain, decode
from hypertier.router.kv.kv_index import BLOCK_BYTES, L1_WEIGHT, KvIndex


def stored(*hashes: int, parent: int | None = None, medium: str = "GPU", group: int = 0) -> Stored:
    """Blocks of two tokens; a block's hash is its first token."""
    tokens = [token for each in hashes for token in (each, each)]
    return Stored(hashes, parent, tokens, 2, medium, None, group, True, True)


def names(*hashes: int) -> list[int]:
    return list(chain([token for each in hashes for token in (each, each)], 2))


def held(index: KvIndex, blocks: list[int]) -> dict[int, float]:
    """Blocks by replica."""
    return {
        replica: size
        for size, mask in index.groups(blocks, float)
        for replica in range(mask.bit_length())
        if mask >> replica & 1
    }


def tidied(index: KvIndex) -> KvIndex:
    """With nothing put off."""
    while index.tidy(1):
        pass
    return index


def after(num_batches: int) -> KvIndex:
    index = KvIndex(1 << 20)
    for payload in BATCHES[:num_batches]:
        for event in decode(payload)[1]:
            index.apply(0, event)
    return tidied(index)


@pytest.mark.parametrize(
    ("num_batches", "blocks"),
    [
        pytest.param(1, 3.0, id="computed"),
        pytest.param(6, 3.0, id="and-in-L1"),
        pytest.param(7, 3 * L1_WEIGHT, id="gpu-cleared"),
        pytest.param(8, 1 + 2 * L1_WEIGHT, id="first-block-loaded-again"),
        pytest.param(10, 3 * L1_WEIGHT, id="gpu-filled-with-others"),
    ],
)
def test_a_real_engine_holds_what_it_did(num_batches: int, blocks: float) -> None:
    index = after(num_batches)

    assert held(index, list(chain(range(10, 106), 32))) == {0: pytest.approx(blocks)}
    assert index.block_size == 32
    assert not index.dropped


def test_a_salted_prompt_of_a_real_engine_is_not_held_without_salt() -> None:
    index = KvIndex(1 << 20)
    for payload in BATCHES[4:6]:
        for event in decode(payload)[1]:
            index.apply(0, event)

    assert held(index, list(chain(range(10, 74), 32))) == {}
    assert held(index, list(chain(range(10, 74), 32, extra_keys=[["tenant"], None]))) == {0: 2.0}


def test_replicas_are_told_apart() -> None:
    index = KvIndex(1 << 20)

    index.apply(0, stored(1, 2))
    index.apply(1, stored(1))

    assert held(index, names(1, 2, 3)) == {0: 2.0, 1: 1.0}


def test_a_replica_that_is_forgotten_holds_nothing_and_takes_no_memory() -> None:
    index = KvIndex(1 << 20)
    index.apply(0, stored(1, 2))

    index.forget(0)
    left = held(index, names(1, 2))
    tidied(index)

    assert (left, index.num_bytes) == ({}, 0)


def test_a_block_behind_one_that_is_not_known_is_counted_and_left() -> None:
    index = KvIndex(1 << 20)

    index.apply(0, stored(3, 4, parent=99))

    assert (index.num_bytes, index.dropped) == (0, {"orphan": 2})


def test_memory_is_bounded_and_what_does_not_fit_is_counted() -> None:
    index = KvIndex(10 * BLOCK_BYTES)

    for number in range(100):
        index.apply(number % 2, stored(number))

    assert index.num_bytes == 10 * BLOCK_BYTES
    assert index.dropped == {"full": 90}


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(stored(1)._replace(is_local=False), id="on-another-node"),
        pytest.param(stored(1, medium="STORAGE"), id="shared-storage"),
        pytest.param(stored(1)._replace(is_whole=False), id="sliding-window"),
    ],
)
def test_what_is_no_whole_block_of_this_replica_is_not_its_own(event: Stored) -> None:
    index = KvIndex(1 << 20)

    index.apply(0, event)

    assert index.num_bytes == 0


def test_a_second_kind_of_layers_changes_nothing() -> None:
    index = KvIndex(1 << 20)
    index.apply(0, stored(1, 2))

    index.apply(0, stored(1, 2, group=1))
    index.apply(0, Removed((1, 2), "GPU", 1, True))

    assert held(index, names(1, 2)) == {0: 2.0}


def test_what_is_gone_from_shared_storage_is_still_held_by_the_replica() -> None:
    index = KvIndex(1 << 20)
    index.apply(0, stored(1))

    index.apply(0, Removed((1,), "GPU", 0, False))

    assert held(index, names(1)) == {0: 1.0}


def test_two_chunks_of_l1_that_share_a_block_hold_it_until_both_are_gone() -> None:
    index = KvIndex(1 << 20)
    index.apply(0, stored(1))
    for _ in range(2):
        index.apply(0, stored(1, medium="CPU"))
    index.apply(0, Cleared())
    tidied(index)

    index.apply(0, Removed((1,), "CPU", 0, True))
    left = held(index, names(1))
    index.apply(0, Removed((1,), "CPU", 0, True))

    assert (left, held(index, names(1)), index.num_bytes) == ({0: L1_WEIGHT}, {}, 0)


STEPS = st.tuples(
    st.sampled_from("SSRCFT"), st.integers(0, 2), st.integers(1, 5), st.sampled_from(["GPU", "CPU"])
)


@given(st.lists(STEPS, max_size=60))
def test_what_is_forgotten_and_not_yet_tidied_is_held_by_nobody(
    steps: list[tuple[str, int, int, str]],
) -> None:
    """Others are known all along, and what a replica tells meanwhile is known once nothing is left to do."""
    index, eager = KvIndex(1 << 20), KvIndex(1 << 20)

    for what, replica, block, medium in steps:
        parent = block - 1 or None
        if what == "T":
            index.tidy(1)
        elif what == "F":
            index.forget(replica)
            eager.forget(replica)
        else:
            event = {
                "S": stored(block, parent=parent, medium=medium),
                "R": Removed((block,), medium, 0, True),
                "C": Cleared(),
            }[what]
            index.apply(replica, event)
            eager.apply(replica, event)
        tidied(eager)

        expected, found = held(eager, names(1, 2, 3, 4, 5)), held(index, names(1, 2, 3, 4, 5))
        for replica in range(3):
            assert found.get(replica) == (None if index._gone_mask >> replica & 1 else expected.get(replica))
        assert index.is_behind or index.num_bytes == eager.num_bytes

    tidied(index)
    assert held(index, names(1, 2, 3, 4, 5)) == expected if steps else not index.num_bytes
    for replica in range(3):
        index.forget(replica)
    tidied(index)
    assert (index.num_bytes, len(index._gpu), len(index._any), index._num_in_l1) == (0, 0, 0, 0)


@pytest.mark.parametrize("event", [pytest.param(None, id="forget"), pytest.param(Cleared(), id="cleared")])
@pytest.mark.parametrize("num_in_l1", [0, 3])
def test_no_more_than_some_blocks_are_dropped_at_once(event: Cleared | None, num_in_l1: int) -> None:
    """Counted, not timed: the event loop does nothing else meanwhile."""
    index = KvIndex(1 << 20)
    index.apply(0, stored(*range(1, 1001)))
    if num_in_l1:
        index.apply(0, stored(*range(1, num_in_l1 + 1), medium="CPU"))

    if event is None:
        index.forget(0)
    else:
        index.apply(0, event)
    sizes = [1000 * BLOCK_BYTES, index.num_bytes]
    while index.tidy(10):
        sizes.append(index.num_bytes)
    sizes.append(index.num_bytes)

    assert max(before - after for before, after in itertools.pairwise(sizes)) == 10 * BLOCK_BYTES
    assert sizes[-1] == (BLOCK_BYTES * num_in_l1 if event is not None else 0)


@given(st.lists(st.tuples(st.sampled_from("SRC"), st.integers(1, 5), st.sampled_from(["GPU", "CPU"]))))
def test_the_index_is_what_a_plain_set_would_be(steps: list[tuple[str, int, str]]) -> None:
    index = KvIndex(1 << 20)
    on_gpu: set[int] = set()
    in_l1: dict[int, int] = {}

    for what, block, medium in steps:
        if what == "S":
            index.apply(0, stored(block, medium=medium))
            if medium == "GPU":
                on_gpu.add(block)
            elif block in on_gpu or in_l1.get(block):
                in_l1[block] = in_l1.get(block, 0) + 1
        elif what == "R":
            index.apply(0, Removed((block,), medium, 0, True))
            if medium == "GPU":
                on_gpu.discard(block)
            elif in_l1.get(block):
                in_l1[block] -= 1
        else:
            index.apply(0, Cleared())
            on_gpu.clear()
    tidied(index)

    for block in range(1, 6):
        weight = 1.0 if block in on_gpu else L1_WEIGHT if in_l1.get(block) else 0.0
        assert held(index, names(block)) == ({0: weight} if weight else {})
    assert index.num_bytes == BLOCK_BYTES * len(on_gpu | {block for block, n in in_l1.items() if n})


def test_what_was_removed_is_not_held_by_anybody_else_less() -> None:
    index = KvIndex(1 << 20)
    for replica, block in itertools.product((0, 1), (1, 2)):
        index.apply(replica, stored(block, parent=1 if block == 2 else None))

    index.apply(0, Removed((2,), "GPU", 0, True))

    assert held(index, names(1, 2)) == {0: 1.0, 1: 2.0}


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=8))
def test_every_replica_is_weighed_by_its_gpu_and_its_l1(depths: list[tuple[int, int]]) -> None:
    index = KvIndex(1 << 20)
    for replica, (on_gpu, in_l1) in enumerate(depths):
        index.apply(replica, stored(*range(max(on_gpu, in_l1))))
        index.apply(replica, stored(*range(in_l1), medium="CPU"))
        index.apply(replica, Removed(tuple(range(on_gpu, 6)), "GPU", 0, True))

    found = held(index, names(*range(6)))

    wanted = {
        replica: on_gpu + L1_WEIGHT * max(0, in_l1 - on_gpu)
        for replica, (on_gpu, in_l1) in enumerate(depths)
        if on_gpu or in_l1
    }
    assert found == pytest.approx(wanted)


ANYTHING = st.recursive(
    st.none() | st.integers(-1, 3) | st.floats() | st.text(max_size=2) | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)
TOLD = {
    "block_hashes": [b"a", 2],
    "parent_block_hash": None,
    "token_ids": [1, 2, 3, 4],
    "block_size": 2,
    "lora_id": None,
    "medium": "GPU",
    "lora_name": None,
    "extra_keys": [None, ["salt"]],
    "group_idx": 0,
    "kv_cache_spec_kind": None,
    "kv_cache_spec_sliding_window": None,
    "locality": None,
}
WRONG = st.dictionaries(st.sampled_from(list(TOLD)), ANYTHING, max_size=2)


EVENTS = st.tuples(st.sampled_from(["BlockStored", "BlockRemoved"]), WRONG, st.booleans())


@given(st.lists(EVENTS, max_size=4))
@example([("BlockStored", {"medium": 1}, True)])
@example([("BlockStored", {"extra_keys": {"a": 1, "b": 2}}, True)])
def test_whatever_an_engine_says_is_held_or_malformed(said: list[tuple[str, dict[str, Any], bool]]) -> None:
    """In both encodings, and by compiled modules too, which look at the types of what they are given."""
    index = KvIndex(4 * BLOCK_BYTES)
    for name, wrong, is_map in said:
        fields = TOLD | wrong
        if name == "BlockRemoved":
            fields = {key: fields[key] for key in ("block_hashes", "medium", "group_idx")}
        event = {"type": name, **fields} if is_map else [name, *fields.values()]
        with contextlib.suppress(KvEventError):
            for each in decode(msgspec.msgpack.encode([1.5, [event], 0]))[1]:
                index.apply(0, each)

    assert index.num_bytes <= 4 * BLOCK_BYTES
    index.forget(0)
    assert tidied(index).num_bytes == 0
