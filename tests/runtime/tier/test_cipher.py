"""What is encrypted is opened by the same key, for the same chunk, and by nothing else."""

from __future__ import annotations

import base64

import pytest
from fakes_tier import FixedNamespace, encrypted
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import ConfigError
from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.cipher import OVERHEAD_BYTES, ChunkCipher, read_cipher
from hypertier.tier.entries import Entries, Loaded
from hypertier.tier.entry import HEADER_BYTES, Flaw
from hypertier.tier.names import parse_entry_name

MASTER, OTHER = b"m" * 32, b"o" * 32
NAMESPACE, KEY = b"n" * 16, b"k" * 36
CONTENT = memoryview(b"what somebody asked " * 5_000)


def entries(backend: MemoryBackend, master_key: bytes | None) -> Entries:
    return Entries(
        backend,
        FixedNamespace(NAMESPACE),
        chunk_bytes=len(CONTENT),
        ttl_seconds=60,
        lookup_timeout_seconds=20,
        io_timeout_seconds=20,
        stripe_bytes=64 * 1024,
        cipher=ChunkCipher(master_key) if master_key else None,
    )


def load(backend: MemoryBackend, master_key: bytes | None) -> tuple[Loaded | Flaw, bytes]:
    slot = bytearray(len(CONTENT))
    return entries(backend, master_key).load(KEY, memoryview(slot)), bytes(slot)


@given(st.binary(max_size=5000), st.binary(min_size=1, max_size=40))
def test_what_was_encrypted_is_decrypted(payload: bytes, key: bytes) -> None:
    cipher = ChunkCipher(MASTER)
    slot = memoryview(bytearray(len(payload)))

    sealed = encrypted(cipher, NAMESPACE, key, memoryview(payload))

    assert len(sealed) == len(payload) + OVERHEAD_BYTES
    assert cipher.decrypt_into(NAMESPACE, key, sealed, slot)
    assert slot == payload


@pytest.mark.parametrize(
    ("master", "namespace", "key"),
    [(OTHER, NAMESPACE, KEY), (MASTER, b"x" * 16, KEY), (MASTER, NAMESPACE, b"x" * 36)],
    ids=["another master key", "another namespace", "another chunk"],
)
def test_nothing_else_opens_it(master: bytes, namespace: bytes, key: bytes) -> None:
    sealed = encrypted(ChunkCipher(MASTER), NAMESPACE, KEY, CONTENT)

    assert not ChunkCipher(master).decrypt_into(namespace, key, sealed, memoryview(bytearray(len(CONTENT))))


@given(st.integers(0, 8 * (64 + OVERHEAD_BYTES) - 1))
def test_any_flipped_bit_is_found(bit: int) -> None:
    cipher = ChunkCipher(MASTER)
    sealed = encrypted(cipher, NAMESPACE, KEY, CONTENT[:64])

    sealed[bit // 8] ^= 1 << bit % 8

    assert not cipher.decrypt_into(NAMESPACE, KEY, sealed, memoryview(bytearray(64)))


def test_a_chunk_lies_encrypted_in_l2_and_comes_back_whole() -> None:
    backend = MemoryBackend()

    entries(backend, MASTER).store(KEY, CONTENT)

    stored = [value for name, value in backend.values.items() if parse_entry_name(name)]
    assert sum(map(len, stored)) == len(CONTENT) + OVERHEAD_BYTES + HEADER_BYTES
    assert not any(b"somebody" in value for value in stored)
    assert load(backend, MASTER) == (Loaded.WHOLE, bytes(CONTENT))


def test_a_chunk_under_another_key_or_none_is_a_flaw() -> None:
    backend = MemoryBackend()
    entries(backend, MASTER).store(KEY, CONTENT)

    assert load(backend, OTHER)[0] is Flaw.PAYLOAD
    assert isinstance(load(backend, None)[0], Flaw)


def test_the_same_chunk_never_looks_the_same_twice() -> None:
    cipher = ChunkCipher(MASTER)

    assert encrypted(cipher, NAMESPACE, KEY, CONTENT) != encrypted(cipher, NAMESPACE, KEY, CONTENT)


def test_keys_are_told_apart_without_giving_them_away() -> None:
    assert ChunkCipher(MASTER).key_id != ChunkCipher(OTHER).key_id
    assert MASTER.hex()[:16] != ChunkCipher(MASTER).key_id


@pytest.mark.parametrize("text", ["hunter2", base64.b64encode(b"short").decode(), "not base64!"])
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError, match="HYPERTIER_L2_KEY") as refused:
        read_cipher({"HYPERTIER_L2_KEY": text})

    assert text not in str(refused.value)


def test_without_a_key_there_is_no_encryption() -> None:
    assert read_cipher({}) is None
    assert read_cipher({"HYPERTIER_L2_KEY": ""}) is None
    assert read_cipher({"HYPERTIER_L2_KEY": base64.b64encode(MASTER).decode() + "\n"}) is not None
