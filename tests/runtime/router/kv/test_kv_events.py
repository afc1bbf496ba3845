"""Batches as vLLM encodes them: recorded from a real one, and in the older encoding."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fakes_kv_events import BATCHES
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import KvEventError
from hypertier.router.kv.kv_events import Cleared, Removed, Stored, chain, decode


def batch(*events: Any) -> bytes:
    return msgspec.msgpack.encode([1.5, list(events), 0])


def test_recorded_batches_are_read() -> None:
    (first,) = decode(BATCHES[0])[1]

    assert isinstance(first, Stored)
    assert (first.parent, first.block_size, first.medium, first.group) == (None, 32, "GPU", 0)
    assert list(first.token_ids) == list(range(10, 106))
    assert [type(event).__name__ for event in decode(BATCHES[6])[1]] == ["Cleared"]
    assert {event.medium for event in decode(BATCHES[1])[1] if isinstance(event, Stored)} == {"CPU"}
    assert any(isinstance(event, Removed) for event in decode(BATCHES[9])[1])


@pytest.mark.parametrize("block_hash", [b"\x01" * 32, 2**63 + 1], ids=["bytes", "number"])
def test_both_encodings_say_the_same(block_hash: bytes | int) -> None:
    as_map = {
        "type": "BlockStored",
        "block_hashes": [block_hash],
        "parent_block_hash": None,
        "token_ids": [1, 2],
        "block_size": 2,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    as_array = ["BlockStored", [block_hash], None, [1, 2], 2, None, "GPU"]

    events = decode(batch(as_map, {"type": "BlockRemoved", "block_hashes": [block_hash], "medium": "GPU"}))

    assert events == decode(batch(as_array, ["BlockRemoved", [block_hash], "GPU"]))
    assert decode(batch(["AllBlocksCleared"], {"type": "AllBlocksCleared"}))[1] == [Cleared(), Cleared()]


def test_an_event_of_a_kind_that_is_not_known_is_left_out() -> None:
    assert decode(batch({"type": "BlockMoved"}, ["BlockMoved", 1], ["AllBlocksCleared"]))[1] == [Cleared()]


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xc1", id="no-msgpack"),
        pytest.param(msgspec.msgpack.encode({}), id="no-batch"),
        pytest.param(batch({"type": "BlockStored"}), id="no-fields"),
        pytest.param(batch(["BlockStored", [1], None, [1, 2, 3], 2]), id="tokens-of-half-a-block"),
        pytest.param(batch(["BlockStored", ["a"], None, [1, 2], 2]), id="hash-of-another-type"),
        pytest.param(batch(["BlockStored", [1], None, [1, 2], 0]), id="no-block-size"),
        pytest.param(batch([]), id="no-name"),
        pytest.param(b"\x91" * 5000, id="deep"),
        pytest.param(msgspec.msgpack.encode([float("inf"), [], 0]), id="no-time"),
        pytest.param(msgspec.msgpack.encode([float("nan"), [], 0]), id="not-a-time"),
        pytest.param(
            batch({"type": "BlockRemoved", "block_hashes": [1], "group_idx": float("inf")}), id="no-group"
        ),
    ],
)
def test_what_is_no_batch_is_named_as_malformed(payload: bytes) -> None:
    with pytest.raises(KvEventError) as caught:
        decode(payload)

    assert caught.value.cause == "malformed"


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_be_malformed(payload: bytes) -> None:
    causes = []

    try:
        decode(payload)
    except KvEventError as error:
        causes.append(error.cause)

    assert set(causes) <= {"malformed"}


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40), st.integers(1, 8), st.integers(0, 40))
def test_blocks_are_named_alike_however_they_are_told(tokens: list[int], size: int, cut: int) -> None:
    whole = list(chain(tokens, size))

    at = min(cut, len(whole))
    first = list(chain(tokens[: at * size], size))
    rest = list(chain(tokens[at * size :], size, first[-1] if first else 0))

    assert first + rest == whole


def test_a_block_that_depends_on_more_than_tokens_is_another() -> None:
    plain = list(chain(range(4), 2))
    salted = list(chain(range(4), 2, extra_keys=[["tenant"], None]))

    assert not set(plain) & set(salted)


@pytest.mark.parametrize("token", [-1, 2**32, "a"])
def test_a_number_that_is_no_token_is_malformed(token: Any) -> None:
    with pytest.raises(KvEventError, match="not tokens"):
        list(chain([token], 1))
