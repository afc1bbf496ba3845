"""Where an engine's answer ends, however its bytes come, and what can't be an answer."""

from __future__ import annotations

import asyncio
import itertools
from typing import cast

import pytest
from fakes_upstream import Carried, Pipe
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.discovery.addresses import Address
from hypertier.router.http.upstream import Upstream
from hypertier.router.replicas.replicas import Replica, ReplicaSet


def carry(*parts: bytes, is_head: bool = False, may_reuse: bool = True) -> tuple[Carried, Upstream, Replica]:
    replicas = ReplicaSet()
    replicas.replace([Address("127.0.0.1", 1)])
    replica = next(iter(replicas.by_url.values()))
    replicas.admit(replica)
    upstream, carried = Upstream(replica), Carried()
    upstream.connection_made(cast(asyncio.BaseTransport, Pipe()))
    upstream.send(carried, b"GET / HTTP/1.1\r\n\r\n", b"", is_head=is_head, may_reuse=may_reuse)
    for part in parts:
        upstream.data_received(part)
    return carried, upstream, replica


LONG = b"x" * 5000
HEAD = b"HTTP/1.1 200 OK\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
ANSWERS = {
    "length": HEAD + b"content-length: 5\r\n\r\nhello",
    "empty": HEAD + b"content-length: 0\r\n\r\n",
    "events": CHUNKED + b"2\r\nab\r\n3\r\nc\r\n\r\n0\r\n\r\n",
    "long-chunk": CHUNKED + b"1388\r\n%b\r\n0\r\n\r\n" % LONG,
    "capitals": CHUNKED + b"A\r\n0123456789\r\n0\r\n\r\n",
    "extension-and-trailer": CHUNKED + b"2;x=1\r\nab\r\n0\r\nT: 1\r\n\r\n",
    "not-plain": HEAD + b"Keep-Alive: timeout=5\r\ncontent-length: 2\r\n\r\nab",
    "after-continue": b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"content-length: 2\r\n\r\nab",
}


@given(name=st.sampled_from(sorted(ANSWERS)), cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_answer_ends_where_it_ends_however_it_is_cut(name: str, cuts: list[int]) -> None:
    data = ANSWERS[name]
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})

    carried, upstream, replica = carry(*(data[a:b] for a, b in itertools.pairwise(places)))

    assert carried.ends == ["complete"]
    assert carried.data.endswith(data[data.index(b"\r\n\r\n", data.index(b" 200 ")) :])
    assert replica.idle == [upstream]


@given(
    name=st.sampled_from(sorted(ANSWERS)),
    cuts=st.lists(st.integers(0, 10_000), max_size=6),
    more=st.sampled_from([b"x", b"\n", b"\r\n", b"0\r\n\r\n", HEAD + b"content-length: 0\r\n\r\n", SWITCH]),
)
def test_connection_with_more_than_its_answer_is_never_used_again(
    name: str, cuts: list[int], more: bytes
) -> None:
    data = ANSWERS[name] + more
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})

    carried, upstream, replica = carry(*(data[a:b] for a, b in itertools.pairwise(places)))

    assert len(carried.data) <= len(ANSWERS[name])
    assert not upstream.usable
    assert len(replica.idle) == 0 or cast(Upstream, replica.idle[0]) is upstream


@pytest.mark.parametrize(
    "body",
    [
        b"3\r\nab\r\n0\r\n\r\n",
        b"-1\r\n",
        b"0x2\r\nab\r\n",
        b"+2\r\nab\r\n",
        b"fffffffffffffffff\r\n",
        b"zz\r\n",
    ],
)
def test_malformed_chunks_break_the_answer(body: bytes) -> None:
    begun, _, _ = carry(CHUNKED + b"2\r\nab\r\n", body + b"x" * 64)

    assert begun.ends == ["broken"]


@pytest.mark.parametrize("status", [100, 102, 103, 150, 199])
@pytest.mark.parametrize("field", [b"content-length: 5", b"transfer-encoding: chunked", b"x: 1"])
@pytest.mark.parametrize("cut", [None, 30])
def test_interim_answer_has_no_body_whatever_it_says(status: int, field: bytes, cut: int | None) -> None:
    data = b"HTTP/1.1 %d X\r\n%b\r\n\r\n" % (status, field) + ANSWERS["length"]

    carried, upstream, replica = carry(*((data,) if cut is None else (data[:cut], data[cut:])))

    assert carried.ends == ["complete"]
    assert carried.data == ANSWERS["length"]
    assert replica.idle == [upstream]


@pytest.mark.parametrize("field", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
def test_answer_without_a_body_names_none(field: bytes) -> None:
    carried, _, _ = carry(b"HTTP/1.1 204 No Content\r\nx: 1\r\n" + field + b"\r\n\r\n")

    assert carried.ends == ["complete"]
    assert carried.data == b"HTTP/1.1 204 No Content\r\nx: 1\r\n\r\n"


@pytest.mark.parametrize("status", [204, 304])
def test_bytes_behind_an_answer_without_a_body_are_no_answer(status: int) -> None:
    carried, upstream, _ = carry(b"HTTP/1.1 %d X\r\ncontent-length: 5\r\n\r\nhello" % status)

    assert carried.data == b""
    assert carried.ends == ["malformed"]
    assert not upstream.usable


@pytest.mark.parametrize(
    "codings",
    [b"gzip, chunked", b"chunked, gzip", b"gzip", b"identity", b"chunked, chunked", b"chunked;a=b", b""],
)
def test_answer_in_a_coding_that_nobody_asked_for_is_none(codings: bytes) -> None:
    carried, upstream, _ = carry(HEAD + b"transfer-encoding: " + codings + b"\r\n\r\n0\r\n\r\n")

    assert carried.data == b""
    assert carried.ends == ["malformed"]
    assert not upstream.usable


def test_chunks_in_http_1_0_are_no_answer() -> None:
    carried, _, _ = carry(b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")

    assert carried.ends == ["malformed"]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\ncontent-length: 2\n\nab",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\n\nab",
        b"HTTP/1.1 200 OK\r\nx: 1\ny: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"HTTP/2 200\r\n",
        b"<html>",
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_what_never_becomes_a_head_is_not_waited_for(data: bytes, size: int) -> None:
    parts = [data[at : at + size] for at in range(0, len(data), size)]

    for num in range(1, len(parts) + 1):
        carried, upstream, _ = carry(*parts[:num])
        if carried.ends:
            break

    assert carried.ends == ["malformed"]
    assert not upstream.usable


@pytest.mark.parametrize(
    ("answer", "request_is"),
    [
        pytest.param(HEAD + b"content-length: 5\r\n\r\n", {"is_head": True}, id="head"),
        pytest.param(ANSWERS["length"], {"may_reuse": False}, id="not-to-be-reused"),
        pytest.param(HEAD + b"Connection: close\r\ncontent-length: 2\r\n\r\nab", {}, id="the-engine-closes"),
    ],
)
def test_connection_whose_state_is_not_sure_carries_no_other_request(
    answer: bytes, request_is: dict[str, bool]
) -> None:
    carried, upstream, replica = carry(answer, **request_is)

    assert carried.ends == ["complete"]
    assert replica.idle == []
    assert not upstream.usable


def test_connection_that_the_engine_closed_waits_for_no_other_request() -> None:
    _, upstream, replica = carry(ANSWERS["length"])
    before = list(replica.idle)

    upstream.connection_lost(None)

    assert (before, replica.idle) == ([upstream], [])


@pytest.mark.parametrize("body", [b"", b"abc"], ids=["before-the-body", "in-the-body"])
@pytest.mark.parametrize(("error", "end"), [(None, "complete"), (ConnectionResetError(), None)])
def test_answer_without_a_length_is_whole_where_its_connection_was_closed_and_not_reset(
    body: bytes, error: Exception | None, end: str | None
) -> None:
    carried, upstream, _ = carry(HEAD + b"x: y\r\n\r\n" + body)

    upstream.connection_lost(error)

    assert carried.ends == [end or ("broken" if body else "reset")]


def test_connection_that_was_not_read_while_its_client_was_slow_is_read_for_the_next_request() -> None:
    class Paused(Pipe):
        is_paused = True

        def resume_reading(self) -> None:
            self.is_paused = False

    replicas = ReplicaSet()
    replicas.replace([Address("127.0.0.1", 1)])
    (replica,) = replicas.by_url.values()
    replicas.admit(replica)
    upstream, pipe = Upstream(replica), Paused()
    upstream.connection_made(cast(asyncio.BaseTransport, pipe))
    upstream.send(Carried(), b"GET / HTTP/1.1\r\n\r\n", b"", is_head=False, may_reuse=True)

    upstream.data_received(ANSWERS["length"])

    assert (pipe.is_paused, replica.idle) == (False, [upstream])


def test_connection_that_had_a_head_request_carries_no_other_whatever_came_before() -> None:
    carried, upstream, replica = carry(ANSWERS["length"])
    replica.idle.clear()
    upstream.send(carried, b"HEAD / HTTP/1.1\r\n\r\n", b"", is_head=True, may_reuse=True)

    upstream.data_received(HEAD + b"content-length: 5\r\n\r\n")

    assert (carried.ends, replica.idle, upstream.usable) == (["complete", "complete"], [], False)
