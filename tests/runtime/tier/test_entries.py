"""A chunk comes back whole or not at all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

import pytest
from fakes_tier import FakeClock, FixedNamespace
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.errors import TierPartError
from hypertier.tier.backends.backend import Buffer
from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.entries import (
    MOST_SPOILT,
    SPOILT_SECONDS,
    Entries,
    Loaded,
    Spoilt,
    stripe_sizes,
)
from hypertier.tier.entry import HEADER_BYTES, Flaw
from hypertier.tier.names import entry_name, facts_name, parse_entry_name

STRIPE = 64 * 1024
CHUNK = 150_000
KEY, OTHER = b"k" * 36, b"o" * 36
CONTENT = memoryview(bytes(i * 31 % 251 for i in range(CHUNK)))


def entries(
    backend: MemoryBackend,
    namespace: bytes = b"n" * 16,
    chunk_bytes: int = CHUNK,
    clock: Callable[[], float] = time.monotonic,
) -> Entries:
    return Entries(
        backend,
        FixedNamespace(namespace),
        chunk_bytes=chunk_bytes,
        ttl_seconds=60,
        lookup_timeout_seconds=20,
        io_timeout_seconds=20,
        stripe_bytes=STRIPE,
        clock=clock,
    )


def name(stripe: int, key: bytes = KEY) -> bytes:
    return entry_name(b"n" * 16, key, stripe)


def load(stored: Entries, key: bytes = KEY, size: int = CHUNK) -> tuple[Loaded | Flaw, bytes]:
    slot = bytearray(size)
    return stored.load(key, memoryview(slot)), bytes(slot)


@settings(deadline=None)
@given(st.integers(1, 40_000_000), st.sampled_from([64 * 1024, 1024 * 1024, 4 * 1024 * 1024]))
def test_stripes_cover_the_chunk_and_leave_room_for_a_header(num_bytes: int, stripe_bytes: int) -> None:
    sizes = stripe_sizes(num_bytes, stripe_bytes)

    assert sum(sizes) == num_bytes
    assert all(0 < size <= stripe_bytes - HEADER_BYTES for size in sizes)
    assert len(sizes) == -(-num_bytes // (stripe_bytes - HEADER_BYTES))


def test_a_stored_chunk_exists_and_loads() -> None:
    stored = entries(MemoryBackend())
    stored.store(KEY, CONTENT)

    assert stored.exist([OTHER, KEY]) == [False, True]
    assert load(stored) == (Loaded.WHOLE, bytes(CONTENT))


def test_the_proving_stripe_is_written_last() -> None:
    backend = MemoryBackend()

    entries(backend).store(KEY, CONTENT)

    assert [stripe for stripe in backend.values if parse_entry_name(stripe)] == [name(2), name(1), name(0)]


def test_what_a_namespace_stands_for_is_stored_again_before_its_time_to_live_ends() -> None:
    backend, clock = MemoryBackend(), FakeClock()
    stored = entries(backend, clock=clock)
    stored.store(KEY, CONTENT)
    described = backend.values.pop(facts_name(b"n" * 16))

    stored.store(OTHER, CONTENT)
    at_once_again = facts_name(b"n" * 16) in backend.values
    clock.advance(30)
    stored.store(OTHER, CONTENT)

    assert json.loads(described) == {"model": "org/model", "epoch": 0}
    assert not at_once_again
    assert facts_name(b"n" * 16) in backend.values


def test_a_half_written_chunk_does_not_exist() -> None:
    backend = MemoryBackend()
    stored = entries(backend)
    stored.store(KEY, CONTENT)
    del backend.values[name(0)]

    assert stored.exist([KEY]) == [False]
    assert load(stored)[0] is Loaded.ABSENT


@pytest.mark.parametrize("stripe", [1, 2])
def test_a_half_evicted_chunk_is_absent(stripe: int) -> None:
    backend = MemoryBackend()
    stored = entries(backend)
    stored.store(KEY, CONTENT)
    del backend.values[name(stripe)]

    assert load(stored)[0] is Loaded.ABSENT


@pytest.mark.parametrize("stripe", [0, 1, 2])
@pytest.mark.parametrize("damage", ["flip", "truncate", "extend", "empty"])
def test_a_damaged_stripe_is_found(stripe: int, damage: str) -> None:
    backend = MemoryBackend()
    stored = entries(backend)
    stored.store(KEY, CONTENT)
    value = backend.values[name(stripe)]
    backend.values[name(stripe)] = {
        "flip": value[:-1] + bytes([value[-1] ^ 0x10]),
        "truncate": value[:-1],
        "extend": value + b"x",
        "empty": b"",
    }[damage]

    assert isinstance(load(stored)[0], Flaw)


def test_stripes_of_two_writers_do_not_pass_as_one_chunk() -> None:
    first, second = MemoryBackend(), MemoryBackend()
    entries(first).store(KEY, CONTENT)
    entries(second).store(KEY, memoryview(bytes(CHUNK)))
    first.values[name(1)] = second.values[name(1)]

    assert load(entries(first))[0] is Flaw.PAYLOAD


def test_swapped_values_are_found() -> None:
    backend = MemoryBackend()
    stored = entries(backend)
    stored.store(KEY, CONTENT)
    stored.store(OTHER, memoryview(bytes(CHUNK)))
    for stripe in range(3):
        mine, other = name(stripe), name(stripe, OTHER)
        backend.values[mine], backend.values[other] = backend.values[other], backend.values[mine]

    assert [load(stored)[0], load(stored, OTHER)[0]] == [Flaw.KEY, Flaw.KEY]


def test_another_namespace_sees_nothing() -> None:
    backend = MemoryBackend()
    entries(backend).store(KEY, CONTENT)
    stranger = entries(backend, b"s" * 16)

    assert stranger.exist([KEY]) == [False]
    assert load(stranger)[0] is Loaded.ABSENT


def test_another_chunk_size_is_a_flaw_even_in_the_same_namespace() -> None:
    backend = MemoryBackend()
    entries(backend).store(KEY, CONTENT)

    outcome, _ = load(entries(backend, chunk_bytes=CHUNK + 1), size=CHUNK + 1)

    assert isinstance(outcome, Flaw)


class Keeper(MemoryBackend):
    """Does not replace values, like HyperPod's daemon."""

    replaces_values = False

    def put(self, key: bytes, buffers: Sequence[Buffer], ttl_seconds: int, timeout_seconds: float) -> None:
        if key not in self.values:
            super().put(key, buffers, ttl_seconds, timeout_seconds)


@pytest.mark.parametrize("keeps", [True, False])
def test_what_spoils_a_place_for_good_is_not_loaded_nor_stored_over_again_and_again(keeps: bool) -> None:
    backend, clock = Keeper() if keeps else MemoryBackend(), FakeClock()
    stored = entries(backend, clock=clock)
    stored.store(KEY, CONTENT)
    backend.values[name(1)] = bytes(len(backend.values[name(1)]))

    loads = [load(stored)[0]]
    after_one = stored.exist([KEY])
    loads.append(load(stored)[0])
    found = stored.exist([OTHER, KEY, OTHER])
    try:
        stored.store(KEY, CONTENT)
        is_stored = True
    except TierPartError:
        is_stored = False
    clock.advance(SPOILT_SECONDS)

    assert loads == [Flaw.PAYLOAD, Flaw.PAYLOAD]
    assert after_one == [True]
    assert found == [False, not keeps, False]
    assert is_stored is not keeps
    assert stored.exist([KEY]) == [True]
    assert load(stored)[0] is (Flaw.PAYLOAD if keeps else Loaded.WHOLE)


def test_of_spoilt_places_a_number_is_remembered() -> None:
    spoilt = Spoilt(FakeClock())

    for number in range(MOST_SPOILT + 1):
        spoilt.add(b"%d" % number)
        spoilt.add(b"%d" % number)

    assert [b"%d" % number in spoilt for number in (0, 1, MOST_SPOILT)] == [False, True, True]
