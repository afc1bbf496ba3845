"""Requests read off the wire: what is served, what is refused, and that fragments change neither."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from fakes_requests import AMBIGUOUS, CHUNKED, HOST, head
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.http.wire import MAX_HEADERS, BodyBudget, RequestReader


def reader(
    max_head_bytes: int = 8192, max_body_bytes: int = 1024, budget_bytes: int = 1 << 20
) -> RequestReader:
    return RequestReader(
        max_head_bytes=max_head_bytes, max_body_bytes=max_body_bytes, budget=BodyBudget(budget_bytes)
    )


def read(data: bytes) -> tuple[list[tuple[bytes, bytes, bytes]], int | None]:
    """Method, target and body of each request, and the status of a refusal."""
    one = reader()
    one.feed(data)
    status = one.refusal.status if one.refusal is not None else None
    return [(request.method, request.target, bytes(request.body)) for request in one.ready], status


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_request_that_two_parsers_may_read_differently_is_refused(data: bytes) -> None:
    smuggled = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"

    requests, status = read(data + smuggled)

    assert (requests, status) == ([], 400)


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_ambiguous_request_is_refused_byte_by_byte_too(data: bytes) -> None:
    one = reader()

    for at in range(len(data)):
        one.feed(data[at : at + 1])

    assert not one.ready
    assert one.refusal is not None
    assert one.refusal.status == 400


def test_a_value_ends_before_its_spaces_however_its_head_is_cut() -> None:
    """RFC 9110 section 5.5: who asks, and a session, are the same wherever the network cuts."""
    data = b"GET / HTTP/1.1\r\n" + HOST + b"X-Request-Id: a\r\nSession:\tb c \t\r\n\r\n"
    found = set()

    for cut in range(len(data)):
        one = reader()
        one.feed(data[:cut])
        one.feed(data[cut:])
        (request,) = one.ready
        found.add((request.field(b"session"), request.request_id))

    assert found == {(b"b c", b"a")}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(head(line=b"CONNECT a:1 HTTP/1.1"), 501, id="connect"),
        pytest.param(head(b"Connection: Upgrade", b"Upgrade: WebSocket"), 400, id="websocket-by-post"),
        pytest.param(head(line=b"GET / HTTP/2.0"), 505, id="http-2"),
        pytest.param(b"GET /\r\n\r\n", 505, id="http-0.9"),
        pytest.param(head(b"Expect: 200-ok"), 417, id="expectation"),
        pytest.param(head(b"Content-Length: 1025"), 413, id="long-body"),
        pytest.param(CHUNKED + b"401\r\n" + b"x" * 1025, 413, id="long-chunked-body"),
        pytest.param(head(b"X: " + b"x" * 8192), 431, id="long-header"),
        pytest.param(head(line=b"GET /" + b"x" * 8192 + b" HTTP/1.1"), 431, id="long-target"),
        pytest.param(head(*[b"X: 1"] * MAX_HEADERS), 431, id="many-headers"),
    ],
)
def test_what_is_not_served_is_refused_by_its_status(data: bytes, expected: int) -> None:
    requests, status = read(data)

    assert (requests, status) == ([], expected)


def test_chunk_extensions_beyond_measure_are_refused() -> None:
    one = reader()

    one.feed(CHUNKED)
    for _ in range(100):
        one.feed(b"1;" + b"x" * 1000 + b"\r\nx\r\n")

    assert one.refusal is not None
    assert one.refusal.status == 400


def test_endless_trailers_are_refused() -> None:
    one = reader()

    one.feed(CHUNKED + b"0\r\n")
    for _ in range(100):
        one.feed(b"X: " + b"x" * 1000 + b"\r\n")

    assert one.refusal is not None
    assert one.refusal.status == 400


SERVED = {
    "get": (head(line=b"GET /a?b HTTP/1.1"), (b"GET", b"/a?b", b"")),
    "length": (head(b"Content-Length: 3") + b"abc", (b"POST", b"/", b"abc")),
    "empty-body": (head(b"content-length: 0"), (b"POST", b"/", b"")),
    "chunked": (CHUNKED + b"2;x=1\r\nab\r\n1\r\nc\r\n0\r\nT: 1\r\n\r\n", (b"POST", b"/", b"abc")),
    "absolute-target": (head(line=b"GET http://b/x?y HTTP/1.1"), (b"GET", b"/x?y", b"")),
    "absolute-target-without-path": (head(line=b"GET HTTP://b HTTP/1.1"), (b"GET", b"/", b"")),
    "options": (head(line=b"OPTIONS * HTTP/1.1"), (b"OPTIONS", b"*", b"")),
    "leading-lines": (b"\r\n\r\n" + head(line=b"GET / HTTP/1.1"), (b"GET", b"/", b"")),
    "upgrade": (head(b"Connection: Upgrade", b"Upgrade: h2c"), (b"POST", b"/", b"")),
    "upgrade-with-length": (
        head(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"Content-Length: 3") + b"abc",
        (b"POST", b"/", b"abc"),
    ),
    "upgrade-with-empty-body": (
        head(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 0"),
        (b"POST", b"/", b""),
    ),
    "upgrade-chunked": (
        head(b"Connection: Upgrade", b"Upgrade: h2c", b"Transfer-Encoding: chunked")
        + b"3\r\nabc\r\n0\r\n\r\n",
        (b"POST", b"/", b"abc"),
    ),
}


@given(
    names=st.lists(st.sampled_from(sorted(SERVED)), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 1000), max_size=20),
)
def test_pipelined_requests_read_the_same_however_they_are_cut(names: list[str], cuts: list[int]) -> None:
    data = b"".join(SERVED[name][0] for name in names)
    one = reader()

    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    for begin, end in itertools.pairwise(places):
        one.feed(data[begin:end])

    assert one.refusal is None
    got = [(request.method, request.target, bytes(request.body)) for request in one.ready]
    assert got == [SERVED[name][1] for name in names]
    assert not one.started


@given(data=st.binary(max_size=400), cut=st.integers(0, 400))
def test_any_bytes_are_read_or_refused_and_never_raise(data: bytes, cut: int) -> None:
    whole, parts = reader(), reader()

    whole.feed(data)
    parts.feed(data[:cut])
    parts.feed(data[cut:])

    assert len(whole.ready) == len(parts.ready)
    assert (whole.refusal is None) == (parts.refusal is None)


@given(
    mutation=st.tuples(st.integers(0, 10_000), st.binary(max_size=3), st.integers(0, 3)),
    name=st.sampled_from(sorted(SERVED)),
)
def test_damaged_requests_read_the_same_however_they_are_cut(
    mutation: tuple[int, bytes, int], name: str
) -> None:
    at, inserted, num_removed = mutation
    data = SERVED[name][0] * 2
    at %= len(data)
    data = data[:at] + inserted + data[at + num_removed :]
    whole, bytewise = reader(), reader()

    whole.feed(data)
    for place in range(len(data)):
        bytewise.feed(data[place : place + 1])

    assert [(r.method, r.target, bytes(r.body)) for r in whole.ready] == [
        (r.method, r.target, bytes(r.body)) for r in bytewise.ready
    ]
    assert (whole.refusal and whole.refusal.status) == (bytewise.refusal and bytewise.refusal.status)


def test_nothing_is_read_behind_the_last_request_of_a_connection() -> None:
    data = head(b"Connection: close") + head(line=b"GET /b HTTP/1.1")

    requests, status = read(data)

    assert ([target for _, target, _ in requests], status) == ([b"/"], None)


def test_a_body_that_comes_byte_by_byte_takes_hardly_more_memory_than_it_is_long() -> None:
    one, num_bytes = reader(max_body_bytes=1 << 20, budget_bytes=1 << 20), 100_000
    one.feed(head(b"Content-Length: %d" % num_bytes))
    tracemalloc.start()

    for _ in range(num_bytes - 1):
        one.feed(bytes(bytearray(b"x")))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    one.feed(b"y")

    assert held < 2 * num_bytes
    assert one.ready[0].body == b"x" * (num_bytes - 1) + b"y"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"http://a/v1/models", b"/v1/models"),
        (b"HTTPS://a:1/b?c", b"/b?c"),
        (b"http://a", b"/"),
        (b"http://a?b", b"/?b"),
    ],
)
def test_absolute_target_goes_on_as_its_path(target: bytes, expected: bytes) -> None:
    assert read(head(line=b"GET %b HTTP/1.1" % target)) == ([(b"GET", expected, b"")], None)


@pytest.mark.parametrize(
    ("target", "expected"), [(b"http://a", b"*"), (b"http://a/", b"/"), (b"http://a?b", b"/?b")]
)
def test_options_of_a_target_without_a_path_ask_about_the_whole_server(
    target: bytes, expected: bytes
) -> None:
    requests = [(b"OPTIONS", expected, b"")]

    assert read(head(line=b"OPTIONS %b HTTP/1.1" % target)) == (requests, None)


@pytest.mark.parametrize("own", [b"Host: other\r\n", b"host:other\r\n", b"HOST: \t other\r\n"])
def test_host_of_an_absolute_target_goes_on_in_place_of_the_clients(own: bytes) -> None:
    one = reader()

    one.feed(b"GET http://a.example:81/v1/models HTTP/1.1\r\nX: 1\r\n" + own + b"Y: 2\r\n\r\n")

    (request,) = one.ready
    assert request.field(b"host") == b"a.example:81"
    assert request.forwarded == [b"Host: a.example:81\r\n", b"X: 1\r\n", b"Y: 2\r\n"]


@pytest.mark.parametrize(
    "host", [b"a", b"A.example", b"a:", b"a:8000", b"10.0.0.1:80", b"[::1]:80", b"[v1.a:b]", b"a_b-c~%41,d"]
)
def test_host_that_names_one_is_served(host: bytes) -> None:
    requests, status = read(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")

    assert (len(requests), status) == (1, None)


def test_bodies_count_against_the_budget_until_given_back() -> None:
    budget = BodyBudget(1000)
    first = RequestReader(max_head_bytes=8192, max_body_bytes=900, budget=budget)
    second = RequestReader(max_head_bytes=8192, max_body_bytes=900, budget=budget)

    first.feed(head(b"Content-Length: 800") + b"x" * 700)
    second.feed(head(b"Content-Length: 800") + b"x" * 700)

    assert second.refusal is not None
    assert (second.refusal.status, second.refusal.retry_after_seconds) == (503, 1)
    assert budget.held_bytes == 700
    first.drop()
    second.drop()
    assert budget.held_bytes == 0


def test_a_client_that_goes_away_gives_back_what_was_read_of_it_ahead() -> None:
    budget = BodyBudget(1 << 20)
    one = RequestReader(max_head_bytes=1024, max_body_bytes=1024, budget=budget)
    whole = head(b"Content-Length: 5") + b"12345"
    one.feed(whole + whole + whole[:-2])
    before = budget.held_bytes

    one.drop()

    assert (before, budget.held_bytes) == (13, 0)
