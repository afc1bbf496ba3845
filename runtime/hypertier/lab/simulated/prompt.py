"""Prompts as tokens and blocks, and what is made up in place of a model's work."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import xxhash

from hypertier.lab.model import BEGIN_ID, TURN_ID
from hypertier.tier.tenants import UNSALTED

ROOT = hashlib.sha256(b"hypertier simulated engine").digest()
WORDS = ("a", "block", "of", "keys", "and", "values", "that", "need", "not", "be", "computed", "again")


def chat_tokens(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Tokens of a conversation, as the lab's small Llama cuts it: a token is a byte."""
    tokens = [BEGIN_ID]
    for message in messages:
        tokens += [TURN_ID, *f"{message['role']}\n{message['content']}".encode()]
    return [*tokens, TURN_ID, *b"assistant\n"]


def block_hashes(tokens: Sequence[int], block_size: int) -> list[bytes]:
    """Hashes of the full blocks, each over the whole prefix. The last token is left to compute.

    Each is behind the tag of a tenant, as L2 has it: this engine knows no salts, so that of none.
    """
    hashes: list[bytes] = []
    parent = ROOT
    for start in range(0, (len(tokens) - 1) // block_size * block_size, block_size):
        parent = hashlib.sha256(parent + array("H", tokens[start : start + block_size]).tobytes()).digest()
        hashes.append(UNSALTED + parent)
    return hashes


def made_up_kv(block_hash: bytes, num_bytes: int) -> bytes:
    """Stand for the keys and values of a block: the same for the same prefix, another for another."""
    return random.Random(block_hash).randbytes(num_bytes)


def made_up_words(blocks: Sequence[memoryview], rest: Sequence[int]) -> Iterator[str]:
    """Yield words without end that depend on every byte of every block, and on the tokens after them.

    Keys and values that are not the prompt's give other words, as they would with a model.
    """
    digest = xxhash.xxh3_64()
    for block in blocks:
        digest.update(block)
    digest.update(array("H", rest).tobytes())
    chosen = random.Random(digest.intdigest())
    yield "(simulated)"
    while True:
        yield " " + chosen.choice(WORDS)
