"""What of a head goes on to the engine, and of the engine's to the client."""

from __future__ import annotations

import re

import pytest
from fakes_requests import head
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.http.heads import request_head, response_head
from hypertier.router.http.wire import BodyBudget, RequestReader


def reader() -> RequestReader:
    return RequestReader(max_head_bytes=8192, max_body_bytes=1024, budget=BodyBudget(1 << 20))


def test_head_for_the_engine_leaves_out_what_speaks_of_the_clients_connection() -> None:
    one = reader()
    one.feed(
        head(
            b"Connection: keep-alive, X-Mine, Authorization",
            b"connection: X-Other",
            b"Keep-Alive: timeout=5",
            b"X-Other: 2",
            b"Proxy-Authorization: secret",
            b"TE: trailers",
            b"X-Mine: 1",
            b"authorization: Bearer k",
            b"Content-Length: 2",
        )
        + b"{}"
    )

    raw = request_head(one.ready[0], b"id-1")

    assert raw == (
        b"POST / HTTP/1.1\r\nHost: a\r\nauthorization: Bearer k\r\nContent-Length: 2\r\n"
        b"x-request-id: id-1\r\n\r\n"
    )


@pytest.mark.parametrize("more", [(), (b"TE: trailers",)], ids=["plain", "parsed"])
def test_request_id_of_the_client_is_kept(more: tuple[bytes, ...]) -> None:
    one = reader()
    one.feed(head(b"X-Request-ID: mine", *more))

    raw = request_head(one.ready[0], b"other")

    assert raw.count(b"mine") == 1
    assert b"other" not in raw


@given(st.lists(st.tuples(st.sampled_from([b"X-A", b"x-b", b"Accept"]), st.text("!az~ ").map(str.encode))))
def test_other_headers_reach_the_engine_unchanged_and_in_order(headers: list[tuple[bytes, bytes]]) -> None:
    one = reader()
    one.feed(head(*(b"%s: %s" % header for header in headers)))

    raw = request_head(one.ready[0], b"id")

    lines = [b"%s: %s" % header for header in headers]
    assert raw.split(b"\r\n")[2 : len(lines) + 2] == lines


@pytest.mark.parametrize(
    ("raw", "status", "expected", "ends"),
    [
        pytest.param(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nX: 1\r\ncontent-length: 2\r\n\r\n",
            200,
            b"HTTP/1.1 200 OK\r\nX: 1\r\ncontent-length: 2\r\n",
            False,
            id="close",
        ),
        pytest.param(
            b"HTTP/1.0 200 OK\r\nX: 1\r\n\r\n", 200, b"HTTP/1.1 200 OK\r\nX: 1\r\n", True, id="http-1.0"
        ),
        pytest.param(
            b"HTTP/1.1 204 None\r\nkeep-alive: 5\r\n\r\n",
            204,
            b"HTTP/1.1 204 None\r\n",
            False,
            id="no-content",
        ),
        pytest.param(
            b"HTTP/1.1 304 Not Modified\r\nX: 1\r\n\r\n",
            304,
            b"HTTP/1.1 304 Not Modified\r\nX: 1\r\n",
            False,
            id="not-modified",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            200,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
            False,
            id="chunked",
        ),
    ],
)
def test_head_for_the_client_keeps_all_but_the_engines_connection(
    raw: bytes, status: int, expected: bytes, ends: bool
) -> None:
    got = response_head(raw, status=status, is_head=False)

    assert (got.raw, got.ends_with_connection) == (expected, ends)


def test_answer_to_head_ends_no_connection() -> None:
    assert not response_head(b"HTTP/1.1 200 OK\r\n\r\n", status=200, is_head=True).ends_with_connection


@pytest.mark.parametrize(("status", "is_stream"), [(200, True), (400, False), (500, False)])
def test_good_answers_alone_are_streams(status: int, is_stream: bool) -> None:
    raw = b"HTTP/1.1 %d X\r\nContent-Type: text/event-stream\r\nKeep-Alive: 5\r\n\r\n" % status

    assert response_head(raw, status=status, is_head=False).is_stream is is_stream


@pytest.mark.parametrize("line", [b"X-Request-Id: 1", b"x-request-id:1"])
def test_an_engines_own_request_id_is_seen(line: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\r\n%b\r\ncontent-length: 0\r\n\r\n" % line

    assert response_head(raw, status=200, is_head=False).has_request_id


CREDENTIALS = re.compile(rb"\r\nx-key:[^\r\n]*", re.IGNORECASE)


@pytest.mark.parametrize("more", [(), (b"TE: trailers",)], ids=["plain", "parsed"])
def test_what_is_taken_out_does_not_go_on(more: tuple[bytes, ...]) -> None:
    one = reader()
    one.feed(head(b"X-Key: secret", b"X-A: b", b"x-key: another", *more))

    one.ready[0].take_out(CREDENTIALS)

    raw = request_head(one.ready[0], b"id")
    assert raw == b"POST / HTTP/1.1\r\nHost: a\r\nX-A: b\r\nx-request-id: id\r\n\r\n"


@pytest.mark.parametrize("named", [b"x-foo", b"X-Foo, close", b"close , X-FOO,, content-length"])
def test_what_an_answers_connection_names_ends_here(named: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: %b\r\nX-Foo: 1\r\nX-Bar: 2\r\n\r\n" % named

    head = response_head(raw, status=200, is_head=False)

    assert head.raw == b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Bar: 2\r\n"
