"""What a vLLM engine says of its blocks: batches of events, as its ZMQ publisher encodes them.

A batch is the msgpack array `[time, [event, ...], data-parallel rank]`. An event is a map with its name as
`type` (vLLM 0.24 and newer), or an array with its name first (older); a block's hash is bytes, or a whole
number (https://github.com/vllm-project/vllm/blob/main/vllm/distributed/kv_events.py, read 2026-12-01).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import xxhash

from hypertier.errors import KvEventError

EngineHash = bytes | int
"""A block's name in the engine: opaque here."""

_FIELDS = {
    "BlockStored": (
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        "lora_name",
        "extra_keys",
        "group_idx",
        "kv_cache_spec_kind",
        "kv_cache_spec_sliding_window",
        "locality",
    ),
    "BlockRemoved": ("block_hashes", "medium", "group_idx", "locality"),
    "AllBlocksCleared": (),
}
_GPU = "GPU"
_FULL_ATTENTION = ("full_attention", "mla_attention", "sink_full_attention")


class Stored(NamedTuple):
    """The engine holds these blocks, each behind the one before it, the first behind `parent`.

    `token_ids` are those of all blocks together, `block_size` each; both are empty where the engine names
    blocks alone. `extra_keys[i]` is what block i depends on beside tokens, None where nothing.
    `is_whole` is false for attention that does not need all that came before.
    """

    block_hashes: Sequence[EngineHash]
    parent: EngineHash | None
    token_ids: Sequence[int]
    block_size: int
    medium: str
    extra_keys: Sequence[Any] | None
    group: int
    is_whole: bool
    is_local: bool


class Removed(NamedTuple):
    """The engine no longer holds these blocks in this medium."""

    block_hashes: Sequence[EngineHash]
    medium: str
    group: int
    is_local: bool


class Cleared(NamedTuple):
    """The engine's GPU holds no block."""


Event = Stored | Removed | Cleared


def decode(payload: bytes) -> tuple[float, list[Event]]:
    """The time of a batch, and its events without those of a kind that is not known.

    Raises KvEventError where it is no batch.
    """
    try:
        batch = msgspec.msgpack.decode(payload)
        seconds = float(batch[0])
        if not math.isfinite(seconds):  # no later one could be told from it
            raise ValueError(f"a batch of the time {seconds}")
        return seconds, [event for item in batch[1] if (event := _event(item)) is not None]
    except (msgspec.DecodeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise KvEventError("malformed", str(error)) from error


def _event(item: Any) -> Event | None:
    if isinstance(item, dict):
        name, fields = item["type"], item
    else:
        name = item[0]
        fields = dict(zip(_FIELDS.get(name, ()), item[1:], strict=False))
    if name == "BlockStored":
        return _stored(fields)
    if name == "BlockRemoved":
        return Removed(
            _hashes(fields["block_hashes"]),
            _medium(fields),
            int(fields.get("group_idx") or 0),
            fields.get("locality") != "REMOTE",
        )
    return Cleared() if name == "AllBlocksCleared" else None


def _stored(fields: dict[str, Any]) -> Stored:
    hashes = _hashes(fields["block_hashes"])
    parent = fields["parent_block_hash"]
    tokens, block_size = fields["token_ids"], fields["block_size"]
    extra_keys = fields.get("extra_keys")
    if not isinstance(block_size, int) or not isinstance(tokens, list):
        raise TypeError("tokens are a list, and a block's size is a number")
    if tokens and (block_size < 1 or len(tokens) != block_size * len(hashes)):
        raise ValueError(f"{len(hashes)} blocks of {block_size} tokens are not {len(tokens)} tokens")
    if extra_keys is None and (fields.get("lora_name") or fields.get("lora_id") is not None):
        extra_keys = [[fields.get("lora_name") or fields.get("lora_id")]] * len(hashes)
    if extra_keys is not None and not (isinstance(extra_keys, list) and len(extra_keys) == len(hashes)):
        raise ValueError("extra keys are not one for each block")
    kind = fields.get("kv_cache_spec_kind")
    return Stored(
        hashes,
        None if parent is None else _hashes([parent])[0],
        tokens,
        block_size,
        _medium(fields),
        extra_keys,
        int(fields.get("group_idx") or 0),
        kind is None or kind in _FULL_ATTENTION,
        fields.get("locality") != "REMOTE",
    )


def _medium(fields: dict[str, Any]) -> str:
    medium = fields.get("medium") or _GPU
    if not isinstance(medium, str):
        raise TypeError("a medium is named by a text")
    return medium


def _hashes(values: Any) -> list[EngineHash]:
    if not isinstance(values, list) or not all(isinstance(value, bytes | int) for value in values):
        raise TypeError("block hashes are bytes or whole numbers")
    return values


def chain(
    token_ids: Sequence[int], block_size: int, root: int = 0, extra_keys: Sequence[Any] | None = None
) -> Iterator[int]:
    """A name of our own for each full block: 64 bits over its tokens and all blocks before it.

    Every engine's blocks are named alike, whatever its own hashes are; `root` is the name of the block
    before the first. Raises KvEventError for a number that is no token.
    """
    try:
        tokens = array("I", token_ids)
    except (OverflowError, TypeError) as error:
        raise KvEventError("malformed", f"not tokens: {error}") from error
    link = root
    for number in range(len(tokens) // block_size):
        link = xxhash.xxh3_64_intdigest(
            tokens[number * block_size : (number + 1) * block_size].tobytes(), link
        )
        if extra_keys is not None and extra_keys[number]:
            link = xxhash.xxh3_64_intdigest(msgspec.msgpack.encode(extra_keys[number]), link)
        yield link
