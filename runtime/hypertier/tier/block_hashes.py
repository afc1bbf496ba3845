"""vLLM's names of a prompt's blocks, computed without vLLM: for people who ask what L2 holds of it. Pure.

A block's hash is that of its parent's, its tokens, and what it depends on beside them. Read in
`vllm/v1/core/kv_cache_utils.py` and `vllm/utils/hashing.py` of vLLM 0.28, 0.30 to 0.33, 2026-12-01; names of
extra keys stand in front of them since 0.31.
"""

from __future__ import annotations

import hashlib
import pickle
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

DEFAULT_SEED = "vllm-none-hash"  # of sha256 and sha256_cbor, where PYTHONHASHSEED is not set
TAGGED_SINCE = (0, 31)
_CBOR_LENGTHS = ((0x18, ">B", 0x100), (0x19, ">H", 0x10000), (0x1A, ">I", 0x1_0000_0000), (0x1B, ">Q", 2**64))


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter as the engine knows it: `--lora-modules NAME=PATH`."""

    name: str
    path: str


def cbor(value: Any) -> bytes:
    """Encode whole numbers, bytes, text, tuples and None canonically (RFC 8949, section 4.2.1)."""
    match value:
        case None:
            return b"\xf6"
        case int():
            return _cbor_head(0, value)
        case bytes():
            return _cbor_head(2, len(value)) + value
        case str():
            return _cbor_head(3, len(value.encode())) + value.encode()
        case tuple():
            return _cbor_head(4, len(value)) + b"".join(map(cbor, value))
    raise TypeError(f"{type(value).__name__} is no part of a block hash")


def _cbor_head(kind: int, number: int) -> bytes:
    if number < 0x18:
        return bytes([kind << 5 | number])
    code, form, _ = next(row for row in _CBOR_LENGTHS if number < row[2])
    return bytes([kind << 5 | code]) + struct.pack(form, number)


def _pickled(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5)


ALGORITHMS: Mapping[str, Callable[[Any], bytes]] = {
    "sha256": lambda value: hashlib.sha256(_pickled(value)).digest(),
    "sha256_cbor": lambda value: hashlib.sha256(cbor(value)).digest(),
    "xxhash": lambda value: xxhash.xxh3_128_digest(_pickled(value)),
    "xxhash_cbor": lambda value: xxhash.xxh3_128_digest(cbor(value)),
}


def algorithm_of(root: bytes, seed: str | None) -> str | None:
    """Which of `ALGORITHMS` makes `root`, where a chain of hashes begins, of `PYTHONHASHSEED`.

    None where the seed was drawn at random: nobody else can compute such a chain.
    """
    seed = DEFAULT_SEED if seed is None else seed
    return next((name for name, digest in ALGORITHMS.items() if digest(seed) == root), None)


def block_hashes(
    tokens: Sequence[int],
    tokens_per_hash: int,
    root: bytes,
    algorithm: str,
    *,
    salt: str | None = None,
    adapter: Adapter | None = None,
    is_tagged: bool = True,
) -> Iterator[bytes]:
    """Yield the hash of each full block of a prompt of text; a salt is part of the first one alone."""
    digest, parent = ALGORITHMS[algorithm], root
    lora: tuple[Any, ...] = ()
    if adapter is not None:
        lora = (("lora", adapter.name, adapter.path),) if is_tagged else (adapter.name,)
    salted: tuple[Any, ...] = (("cache_salt", salt) if is_tagged else salt,) if salt else ()
    for start in range(0, len(tokens) - tokens_per_hash + 1, tokens_per_hash):
        extra = lora + (salted if start == 0 else ())
        parent = digest((parent, tuple(tokens[start : start + tokens_per_hash]), extra or None))
        yield parent


def chunk_keys(
    hashes: Sequence[bytes],
    num_tokens: int,
    *,
    tokens_per_chunk: int,
    tokens_per_hash: int,
    group_id: int,
) -> Iterator[bytes]:
    """Name the whole chunks among the first `num_tokens`, as vLLM names a group's chunks to tiers."""
    hashes_per_chunk = tokens_per_chunk // tokens_per_hash
    suffix = group_id.to_bytes(4, "big")
    for number in range(1, min(num_tokens // tokens_per_chunk, len(hashes) // hashes_per_chunk) + 1):
        yield bytes(hashes[number * hashes_per_chunk - 1]) + suffix
