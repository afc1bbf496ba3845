"""Blocks are named as vLLM names them, as recorded from it by `interfaces/record_hashes.py`."""

from __future__ import annotations

import hashlib
import json
import os
import pickle

import pytest
from fakes_tier_vllm import INTERFACES

from hypertier.tier.block_hashes import ALGORITHMS, Adapter, algorithm_of, block_hashes, cbor, chunk_keys

TOKENS = [1, 23, 24, 255, 256, 65_535, 65_536, 128_255, 7, 8, 9, 10, 11, 12, 13, 14]
RECORDED = json.loads((INTERFACES / "hashes-0.32.0.json").read_text())
ADAPTER = Adapter("legal", "/adapters/legal")
CASES: dict[str, tuple[str | None, Adapter | None]] = {
    "plain": (None, None),
    "salted": ("acme.Zm9v é", None),
    "adapter": (None, ADAPTER),
    "both": ("s", ADAPTER),
}


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@pytest.mark.parametrize("case", CASES)
def test_blocks_are_named_as_vllm_names_them(algorithm: str, case: str) -> None:
    salt, adapter = CASES[case]
    root = bytes.fromhex(RECORDED[algorithm]["root"])

    named = block_hashes(TOKENS, 8, root, algorithm, salt=salt, adapter=adapter)

    assert [each.hex() for each in named] == RECORDED[algorithm][case]


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_the_root_gives_the_algorithm_away_to_who_knows_the_seed(algorithm: str) -> None:
    root = bytes.fromhex(RECORDED[algorithm]["root"])

    assert algorithm_of(root, "0") == algorithm
    assert algorithm_of(root, "1") is None


def test_without_a_seed_vllms_own_is_meant() -> None:
    root = hashlib.sha256(pickle.dumps("vllm-none-hash", 5)).digest()

    assert algorithm_of(root, None) == "sha256"
    assert algorithm_of(os.urandom(32), None) is None


def test_before_0_31_extra_keys_have_no_names() -> None:
    root = b"r" * 32
    extra = ("legal", "s")
    first = hashlib.sha256(pickle.dumps((root, tuple(TOKENS[:8]), extra), 5)).digest()
    second = hashlib.sha256(pickle.dumps((first, tuple(TOKENS[8:]), extra[:1]), 5)).digest()

    named = block_hashes(TOKENS, 8, root, "sha256", salt="s", adapter=ADAPTER, is_tagged=False)

    assert list(named) == [first, second]


def test_what_fills_no_block_has_no_name() -> None:
    assert len(list(block_hashes(TOKENS[:15], 8, b"r", "sha256"))) == 1
    assert list(block_hashes(TOKENS[:7], 8, b"r", "sha256")) == []


def test_a_chunk_is_named_by_its_last_block_and_its_group() -> None:
    hashes = [bytes([number]) * 4 for number in range(5)]

    named = list(chunk_keys(hashes, 79, tokens_per_chunk=32, tokens_per_hash=16, group_id=3))

    assert named == [hashes[1] + b"\0\0\0\3", hashes[3] + b"\0\0\0\3"]


def test_cbor_is_for_what_block_hashes_are_made_of() -> None:
    with pytest.raises(TypeError, match="float is no part of a block hash"):
        cbor(1.5)
