"""Whose a head is, is remembered with it, and no longer than its key holds."""

from __future__ import annotations

import pytest

from hypertier.router.access import keys
from hypertier.router.access.identity import CREDENTIALS, Identity, Unknown, identify, read_headers
from hypertier.router.http.heads import Request
from hypertier.router.http.wire import BodyBudget, RequestReader

KEY, OTHER = "sk-ht-of-acme", "sk-ht-of-zeta"
JANUARY = 1_798_761_600.0  # 2027-01-01 in UTC


def request(key: str) -> Request:
    """One with a head that is kept for the next one like it."""
    reader = RequestReader(max_head_bytes=4096, max_body_bytes=4096, budget=BodyBudget(4096))
    reader.feed(b"POST / HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %b\r\n\r\n" % key.encode())
    (found,) = reader.ready
    assert found.whole_head is not None
    return found


def ring(*lines: str) -> keys.KeyRing:
    return keys.parse("\n".join(lines), "--api-keys")


def whose(asked: Request, known: keys.KeyRing, now: float = 0.0) -> str:
    """The tenant, or why not."""
    found = identify(asked, read_headers(asked), known, None, now)
    return found.tenant if isinstance(found, Identity) else found.cause


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param([], "unknown", id="removed"),
        pytest.param([keys.line(KEY, "zeta", None)], "zeta", id="anothers"),
        pytest.param([keys.line(KEY, "acme", "1970-01-01")], "unknown", id="ended"),
        pytest.param([keys.line(OTHER, "zeta", None), keys.line(KEY, "acme", None)], "acme", id="kept"),
    ],
)
def test_other_keys_are_asked_anew_about_a_head_that_is_known(later: list[str], expected: str) -> None:
    before = whose(request(KEY), ring(keys.line(KEY, "acme", None)))

    assert (before, whose(request(KEY), ring(*later), 1.0)) == ("acme", expected)


def test_a_key_that_ends_ends_for_a_head_that_is_known() -> None:
    known = ring(keys.line(KEY, "acme", "2027-01-01"))

    assert whose(request(KEY), known, JANUARY - 1) == "acme"
    assert whose(request(KEY), known, JANUARY) == "unknown"


def test_heads_that_differ_by_their_key_alone_are_of_two_tenants() -> None:
    known = ring(keys.line(KEY, "acme", None), keys.line(OTHER, "zeta", None))

    found = [whose(request(key), known) for key in (KEY, OTHER, KEY, OTHER)]

    assert found == ["acme", "zeta", "acme", "zeta"]


def test_what_goes_to_the_engine_names_nobody_whoever_the_head_was_of() -> None:
    known = ring(keys.line(KEY, "acme", None))
    asked = request(KEY)
    assert whose(asked, known) == "acme"

    asked.take_out(CREDENTIALS)

    found = identify(asked, read_headers(asked), known, None, 0.0)
    assert isinstance(found, Unknown)
    assert KEY.encode() not in asked.head_lines
