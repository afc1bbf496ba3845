"""Whatever happens to the values in L2, a chunk that loads is the one that was asked for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from fakes_tier import FixedNamespace, encrypted
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.cipher import ChunkCipher
from hypertier.tier.entries import Entries, Loaded
from hypertier.tier.entry import Flaw
from hypertier.tier.names import entry_name, parse_entry_name
from hypertier.tier.tenants import UNSALTED, tenant_tag

CHUNK, STRIPE = 150_000, 64 * 1024
NAMESPACES = (b"revision one    ", b"revision two    ")
TENANTS = (tenant_tag("acme"), tenant_tag("globex"), UNSALTED)
KEYS = (b"k" * 36, b"l" * 36)
CHUNKS = list(itertools.product(NAMESPACES, TENANTS, KEYS))
KINDS = ("swap", "copy", "delete", "flip", "cut", "lengthen", "splice", "empty", "header")


def content(namespace: bytes, key: bytes) -> bytes:
    """Of each chunk another one."""
    return (namespace + key).ljust(60, b".") * (CHUNK // 60)


def entries(backend: MemoryBackend, namespace: bytes, cipher: ChunkCipher | None) -> Entries:
    return Entries(
        backend,
        FixedNamespace(namespace),
        chunk_bytes=CHUNK,
        ttl_seconds=60,
        lookup_timeout_seconds=20,
        io_timeout_seconds=20,
        stripe_bytes=STRIPE,
        cipher=cipher,
    )


def filled(cipher: ChunkCipher | None) -> MemoryBackend:
    backend = MemoryBackend()
    for namespace, tenant, key in CHUNKS:
        body = memoryview(content(namespace, tenant + key))
        entries(backend, namespace, cipher).store(tenant + key, body)
    return backend


def attack(values: dict[bytes, bytes], kind: str, one: bytes, other: bytes, at: int) -> None:
    mine, its = values.get(one, b""), values.get(other, b"")
    place = at % max(1, len(mine))
    changed = {
        "swap": its,
        "copy": its,
        "flip": mine[:place] + bytes([mine[place] ^ 1 << at % 8]) + mine[place + 1 :] if mine else b"",
        "cut": mine[:place],
        "lengthen": mine + its[:place],
        "splice": mine[:place] + its[place:],
        "empty": b"",
        "header": its[:64] + mine[64:],
    }
    if kind == "delete":
        values.pop(one, None)
    else:
        values[one] = changed[kind]
    if kind == "swap":
        values[other] = mine


ATTACKS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 35), st.integers(0, 35), st.integers(0, 2**20)),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("cipher", [None, ChunkCipher(b"m" * 32)], ids=["plain", "encrypted"])
def test_no_attack_on_values_makes_a_chunk_lie(cipher: ChunkCipher | None) -> None:
    whole = dict(filled(cipher).values)
    names = sorted(name for name in whole if parse_entry_name(name))

    @settings(deadline=None, max_examples=60)
    @given(ATTACKS)
    def attacked(attacks: Sequence[tuple[str, int, int, int]]) -> None:
        backend = MemoryBackend()
        backend.values = dict(whole)
        for kind, one, other, at in attacks:
            attack(backend.values, kind, names[one], names[other], at)
        for namespace, tenant, key in CHUNKS:
            slot = bytearray(CHUNK)
            outcome = entries(backend, namespace, cipher).load(tenant + key, memoryview(slot))
            mine = [entry_name(namespace, tenant + key, stripe) for stripe in range(3)]
            untouched = all(backend.values.get(name) == whole[name] for name in mine)
            assert (outcome is Loaded.WHOLE) == untouched
            assert outcome is not Loaded.WHOLE or slot == content(namespace, tenant + key)

    attacked()


@pytest.mark.parametrize("cipher", [None, ChunkCipher(b"m" * 32)], ids=["plain", "encrypted"])
def test_a_chunk_given_to_another_tenant_is_none_of_its(cipher: ChunkCipher | None) -> None:
    """Even for one and the same key of vLLM, which a salt prevents."""
    backend = filled(cipher)
    namespace, (acme, globex, _), key = NAMESPACES[0], TENANTS, KEYS[0]
    for stripe in range(3):
        stolen = backend.values[entry_name(namespace, acme + key, stripe)]
        backend.values[entry_name(namespace, globex + key, stripe)] = stolen

    outcome = entries(backend, namespace, cipher).load(globex + key, memoryview(bytearray(CHUNK)))

    assert outcome is Flaw.KEY


def test_an_encrypted_chunk_resealed_for_another_tenant_does_not_open() -> None:
    """Who can write L2 can write a header; the key of encryption is of this tenant and this chunk alone."""
    cipher = ChunkCipher(b"m" * 32)
    namespace, (acme, globex, _), key = NAMESPACES[0], TENANTS, KEYS[0]
    sealed = encrypted(cipher, namespace, acme + key, memoryview(content(namespace, acme + key)))

    assert not cipher.decrypt_into(namespace, globex + key, sealed, memoryview(bytearray(CHUNK)))


def test_after_a_change_of_the_key_nothing_of_before_is_seen_and_what_is_new_is() -> None:
    before, after = ChunkCipher(b"m" * 32), ChunkCipher(b"n" * 32)
    backend = filled(before)
    rotated = entries(backend, b"revision 1 key 2", after)  # which key it is, is part of the namespace
    key, body = TENANTS[0] + KEYS[0], memoryview(content(NAMESPACES[0], TENANTS[0] + KEYS[0]))

    seen = rotated.exist([tenant + each for tenant in TENANTS for each in KEYS])
    rotated.store(key, body)
    slot = bytearray(CHUNK)

    assert not any(seen)
    assert rotated.load(key, memoryview(slot)) is Loaded.WHOLE
    assert slot == body
    assert before.key_id != after.key_id
