"""A stored value that is not exactly the chunk asked for is told apart, however it came to be so."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.tier.entry import HEADER_BYTES, Flaw, PartsChecksum, header_flaw, payload_flaw, seal

NAMESPACE, OTHER_NAMESPACE = b"n" * 16, b"m" * 16
KEY, OTHER_KEY = b"k" * 36, b"l" * 36


def flaw(header: bytes, payload: bytes, num_stripes: int = 2) -> Flaw | None:
    found = header_flaw(header, NAMESPACE, KEY, len(payload), num_stripes)
    return found or payload_flaw(header, in_stripes([payload[:7]], [payload[7:9], payload[9:]]))


def in_stripes(*stripes: list[bytes]) -> int:
    """The checksum of a payload that comes in stripes, each in parts."""
    header = bytearray(HEADER_BYTES)
    checksum = PartsChecksum(header)
    for parts in stripes:
        tell = checksum.begin()
        tell(memoryview(header))
        for part in parts:
            tell(memoryview(part))
        checksum.end()
    return checksum.value


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=500), st.integers(min_value=0))
def test_any_flipped_bit_is_found(payload: bytes, position: int) -> None:
    value = bytearray(seal(NAMESPACE, KEY, memoryview(payload), 2) + payload)
    position %= 8 * len(value)
    value[position // 8] ^= 1 << position % 8

    found = flaw(bytes(value[:HEADER_BYTES]), bytes(value[HEADER_BYTES:]))

    assert found is not None


@settings(deadline=None)
@given(st.binary(max_size=500))
def test_what_was_sealed_is_flawless(payload: bytes) -> None:
    header = seal(NAMESPACE, KEY, memoryview(payload), 2)

    assert len(header) == HEADER_BYTES
    assert flaw(header, payload) is None


@pytest.mark.parametrize(
    ("is_encrypted", "payload_checksum", "own_checksum"),
    [
        pytest.param(False, "7b8d2d5bf061fe32", "c8901ee74c1bb32d", id="plain"),
        pytest.param(True, "0000000000000000", "c6a2f2ef1a855077", id="encrypted"),
    ],
)
def test_a_header_of_version_2_is_these_bytes(
    is_encrypted: bool, payload_checksum: str, own_checksum: str
) -> None:
    """Engines of other releases read them: whoever changes one raises VERSION, or they count flaws."""
    header = seal(NAMESPACE, KEY, memoryview(b"payload"), 2, is_encrypted=is_encrypted)

    assert [header[begin:end].hex() for begin, end in pairwise((0, 4, 5, 6, 8, 16, 32, 48, 56, 64))] == [
        b"HTKV".hex(),
        "02",  # version
        "01",  # algorithm: XXH3
        "0200",  # stripes
        "0700000000000000",  # length
        NAMESPACE.hex(),
        "3722ebcc5d057de77d486e19ef58804a",  # BLAKE2b of KEY, keyed by NAMESPACE
        payload_checksum,
        own_checksum,
    ]


def test_a_stripe_that_is_begun_again_counts_once() -> None:
    checksum = PartsChecksum(bytearray())
    checksum.begin()(memoryview(b"pay"))
    checksum.end()

    checksum.begin()(memoryview(b"lo"))  # then its connection is lost
    checksum.begin()(memoryview(b"load"))
    checksum.end()

    assert payload_flaw(seal(NAMESPACE, KEY, memoryview(b"payload"), 2), checksum.value) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (seal(OTHER_NAMESPACE, KEY, memoryview(b"payload"), 2), Flaw.NAMESPACE),
        (seal(NAMESPACE, OTHER_KEY, memoryview(b"payload"), 2), Flaw.KEY),
        (seal(NAMESPACE, KEY, memoryview(b"payloads"), 2), Flaw.LENGTH),
        (seal(NAMESPACE, KEY, memoryview(b"payload"), 3), Flaw.LENGTH),
        (seal(NAMESPACE, KEY, memoryview(b"PAYLOAD"), 2), Flaw.PAYLOAD),
        (bytes(HEADER_BYTES), Flaw.FOREIGN),
        (b"HTKV", Flaw.FOREIGN),
    ],
    ids=["namespace", "swapped", "length", "stripes", "payload", "zeros", "cut off"],
)
def test_each_lie_has_its_name(header: bytes, expected: Flaw) -> None:
    assert flaw(header, b"payload") is expected
