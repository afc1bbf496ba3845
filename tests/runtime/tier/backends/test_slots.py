"""The slot of a key, and what a cluster says about its slots."""

from __future__ import annotations

import pytest

from hypertier.errors import TierProtocolError
from hypertier.tier.address import L2Address
from hypertier.tier.backends.resp_reader import ErrorReply, Reply
from hypertier.tier.backends.slots import NUM_SLOTS, Redirect, key_slot, parse_redirect, parse_slots

ASKED = L2Address("cache.example.com", 6379, tls=True)


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        (b"123456789", 0x31C3),  # the specification's own example
        (b"foo", 12182),
        (b"{foo}bar", 12182),
        (b"x{foo}{bar}", 12182),
        (b"{}foo", 9500),
        (b"{foo", 13308),
    ],
    ids=["example", "plain", "tag", "first of two tags", "empty tag", "tag without end"],
)
def test_the_slot_of_a_key(key: bytes, slot: int) -> None:
    assert key_slot(key) == slot


@pytest.mark.parametrize(
    ("message", "redirect"),
    [
        ("MOVED 3999 10.0.0.1:6380", Redirect(L2Address("10.0.0.1", 6380, tls=True), False, 3999)),
        (
            "ASK 3999 other.example.com:6380",
            Redirect(L2Address("other.example.com", 6380, tls=True), True, 3999),
        ),
        ("MOVED 3999 :6380", Redirect(L2Address("cache.example.com", 6380, tls=True), False, 3999)),
        ("MOVED 3999 2001:db8::1:6380", Redirect(L2Address("2001:db8::1", 6380, tls=True), False, 3999)),
        ("OOM command not allowed", None),
    ],
    ids=["moved", "ask", "without a host", "ipv6", "another error"],
)
def test_redirections_are_read(message: str, redirect: Redirect | None) -> None:
    assert parse_redirect(ErrorReply(message), ASKED) == redirect


@pytest.mark.parametrize(
    "message",
    [
        "MOVED",
        "MOVED 1 host",
        "ASK 1 host:port",
        "MOVED 1 host:99999",
        "MOVED 16384 host:1",
        "MOVED x host:1",
    ],
)
def test_a_redirection_to_nowhere_is_an_error(message: str) -> None:
    with pytest.raises(TierProtocolError):
        parse_redirect(ErrorReply(message), ASKED)


def test_slots_belong_to_their_primaries() -> None:
    reply: Reply = [
        [0, 99, [b"10.0.0.1", 6379, b"id1", []], [b"10.0.0.9", 6379, b"id9", []]],
        [100, 100, [b"10.0.0.2", 6380, b"id2", [b"hostname", b"two.example.com"]]],
        [200, NUM_SLOTS - 1, [None, 6381, b"id3"]],
    ]

    slots = parse_slots(reply, ASKED)

    assert len(slots) == NUM_SLOTS
    assert slots[0] == slots[99] == L2Address("10.0.0.1", 6379, tls=True)
    assert slots[100] == L2Address("two.example.com", 6380, tls=True)
    assert slots[150] is None
    assert slots[200] == slots[-1] == L2Address("cache.example.com", 6381, tls=True)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        7,
        ErrorReply("NOPERM"),
        [b"x"],
        [[0, NUM_SLOTS, [b"h", 1]]],
        [[5, 4, [b"h", 1]]],
        [[0, 1, [b"h", 0]]],
        [[0, 1, [b"h"]]],
        [[0, 1]],
    ],
    ids=["none", "number", "error", "text", "beyond the last", "backwards", "port", "no port", "no node"],
)
def test_anything_else_is_an_error(reply: Reply) -> None:
    with pytest.raises(TierProtocolError):
        parse_slots(reply, ASKED)
