"""Whatever comes first on a connection, what comes second is itself or is not served: never anything else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fakes_desync import SECOND, SMUGGLED, Path
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

BODY = b'{"messages": "x"}'


@pytest.fixture(scope="module")
def path() -> Iterator[Path]:
    with Path() as opened:
        yield opened


def chunked(body: bytes, *sizes: int) -> bytes:
    """The body in chunks of these sizes, and a last one."""
    parts = []
    for size in (*sizes, len(body)):
        part, body = body[:size], body[size:]
        if part:
            parts.append(b"%x\r\n%b\r\n" % (len(part), part))
    return b"".join(parts) + b"0\r\n\r\n"


NAMES = st.sampled_from(
    [b"Content-Length", b"content-length", b"Transfer-Encoding", b"X-Any", b"Host", b"Expect"]
)
NUMBERS = st.sampled_from(
    [b"0", b"6", b"17", b"+17", b"017", b"17, 17", b"1e1", b"0x11", b"-1", b"", b"99999999999"]
)
CODINGS = st.sampled_from(
    [b"chunked", b"Chunked", b"gzip, chunked", b"chunked, identity", b"identity", b"xchunked"]
)
SEPARATORS = st.sampled_from([b": ", b":", b" : ", b":\t", b":\x0b"])
ENDS = st.sampled_from([b"\r\n", b"\n", b"\r", b"\r\n ", b"\r\r\n", b"\0\r\n"])
FIELDS = st.tuples(NAMES, SEPARATORS, NUMBERS | CODINGS, st.just(b"\r\n") | ENDS).map(b"".join)
LINES = st.sampled_from(
    [
        b"POST /first HTTP/1.1\r\n",
        b"GET /first HTTP/1.1\r\n",
        b"POST /first HTTP/1.0\r\n",
        b"POST  /first HTTP/1.1\r\n",
    ]
)
BODIES = st.sampled_from(
    [
        b"",
        BODY,
        SMUGGLED,
        chunked(BODY),
        chunked(BODY, 3, 1),
        chunked(SMUGGLED),
        b"0\r\n\r\n" + SMUGGLED,
        b"11;a=b\r\n" + BODY + b"\r\n0\r\nX: y\r\n\r\n",
        b"11\n" + BODY + b"\n0\n\n",
        b"-1\r\n\r\n",
        b"1_1\r\n" + BODY,
    ]
)
FIRSTS = st.tuples(LINES, st.just(b"Host: a\r\n"), st.lists(FIELDS, max_size=3), BODIES).map(
    lambda parts: parts[0] + parts[1] + b"".join(parts[2]) + b"\r\n" + parts[3]
)
CUTS = st.lists(st.integers(0, 1000), max_size=4)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(first=FIRSTS, cuts=CUTS)
@example(
    first=b"POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0",
    cuts=[],
)
@example(first=b"GET /first HTTP/1.1\r\nHost: a\r\nContent-Length: 37\r\n\r\n" + SMUGGLED, cuts=[])
def test_nothing_inside_a_first_request_is_served_as_one(path: Path, first: bytes, cuts: list[int]) -> None:
    heard = path.send(first, cuts)

    # What a body holds is a body; behind a whole first request without one it is a request of the client's.
    is_body = heard.targets[:1] == [b"/first"] and SMUGGLED in heard.bodies[0]
    assert not (is_body and b"/smuggled" in heard.targets)
    assert set(heard.targets) <= {b"/first", b"/smuggled", b"/second"}
    assert len(set(heard.targets)) == len(heard.targets)
    if heard.served_second:
        assert heard.targets[-1] == b"/second"
        assert heard.bodies[-1] == b"second"
        assert heard.statuses[: len(heard.targets)] == [200] * len(heard.targets)
    assert heard.statuses.count(200) == len(heard.targets)
    assert sum(status != 200 for status in heard.statuses) <= 1  # a refusal ends the connection
    assert (heard.health, path.held_bytes) == (200, 0)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=300), cuts=CUTS)
def test_any_bytes_end_in_a_refusal_or_wait_and_others_are_served(
    path: Path, data: bytes, cuts: list[int]
) -> None:
    heard = path.send(data, cuts)

    assert set(heard.targets) <= {b"/second"}
    assert all(status in (200, 400, 408, 413, 431, 501, 505) for status in heard.statuses)
    assert (heard.health, path.held_bytes) == (200, 0)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    body=st.binary(max_size=200) | st.just(SMUGGLED) | st.just(SECOND),
    sizes=st.none() | st.lists(st.integers(1, 50), max_size=4),
    cuts=CUTS,
)
def test_whole_first_request_of_any_body_leaves_the_second_as_it_is(
    path: Path, body: bytes, sizes: list[int] | None, cuts: list[int]
) -> None:
    framing = b"Content-Length: %d\r\n\r\n" % len(body) + body
    if sizes is not None:
        framing = b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, *sizes)

    heard = path.send(b"POST /first HTTP/1.1\r\nHost: a\r\n" + framing, cuts)

    assert heard.statuses[:2] == [200, 200]
    assert heard.targets == [b"/first", b"/second"]
    assert heard.bodies == [body, b"second"]
