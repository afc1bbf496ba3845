"""Pieces of a stream gather only where they come one upon the other, for a moment, and none is lost by it."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.discovery.addresses import Address
from hypertier.router.http.gathering import (
    ENOUGH_BYTES,
    NUM_QUICK,
    QUICK_SECONDS,
    STREAMS_A_MILLISECOND,
    Gathering,
    waker,
)
from hypertier.router.http.plain import ResponseHead
from hypertier.router.http.sides import Carried
from hypertier.router.http.upstream import Upstream
from hypertier.router.replicas.replicas import ReplicaSet

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
JSON = HEAD.replace(b"text/event-stream", b"application/json")
PIECE, END = b"2\r\nab\r\n", b"0\r\n\r\n"
SECONDS = 0.002
MANY = 2 * STREAMS_A_MILLISECOND


class Stream(Carried):
    """One answer, beside `others` that are quick: its clock, timer and socket are the test's."""

    def __init__(self, others: int = MANY) -> None:
        self.others = others
        self.now = 0.0
        self.wakes_at = 1
        self.timer: tuple[float, Callable[[], None]] | None = None
        self.num_gathered = 0
        self.data = b""
        self.ended = ""
        self.is_closing_ = False
        self.is_paused = False
        replicas = ReplicaSet()
        replicas.replace([Address("127.0.0.1", 1)])
        replica = next(iter(replicas.by_url.values()))
        replicas.admit(replica)
        gathering = Gathering(SECONDS, lambda: self.now, self._call_later, self._wake_at)
        gathering.num_quick = others
        self.gathering = gathering
        self.upstream = Upstream(replica, gathering)
        self.upstream.connection_made(cast(asyncio.BaseTransport, self))
        self.ask()

    def ask(self) -> None:
        self.upstream.send(self, b"GET / HTTP/1.1\r\n\r\n", b"", is_head=False, may_reuse=True)

    def comes(self, data: bytes, after: float = 0.0) -> None:
        """A piece reaches the socket; the router reads it when it is woken."""
        self.pass_time(after)
        self.upstream.data_received(data)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        if self.timer is not None and self.timer[0] <= until:
            (self.now, call), self.timer = self.timer, None
            call()
        self.now = until

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        assert self.timer is None
        self.timer = (self.now + seconds, call)

    def _wake_at(self, fd: int, num_bytes: int) -> None:
        self.num_gathered += num_bytes > 1
        self.wakes_at = num_bytes

    # As a transport, and as the exchange.

    def get_extra_info(self, name: str) -> Any:
        return None

    def write(self, data: bytes) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closing_

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.is_closing_ = True

    def begin(self, head: ResponseHead, data: bytes) -> None:
        self.data += data

    def relay(self, data: bytes) -> None:
        self.data += data

    def complete(self, *, keep_alive: bool) -> None:
        self.ended = "complete"

    def broken(self) -> None:
        self.ended = "broken"

    def failed(self, cause: str, *, answering: bool = False) -> None:
        self.ended = cause

    def may_retry(self, status: int = 0) -> bool:
        return False

    def switched(self, raw: bytes, data: bytes) -> bool:
        return False

    def hold(self) -> None: ...

    def go_on(self) -> None: ...


def flood(head: bytes = HEAD, num_pieces: int = NUM_QUICK, others: int = MANY) -> Stream:
    """A stream that has just become one of quick pieces: one more than `num_pieces`, with the head."""
    stream = Stream(others)
    stream.comes(head + PIECE)
    for _ in range(num_pieces):
        stream.comes(PIECE, QUICK_SECONDS / 4)
    return stream


def test_first_pieces_never_wait() -> None:
    assert flood(num_pieces=NUM_QUICK - 1).num_gathered == 0
    assert flood().num_gathered == 1


def test_next_stream_of_a_quick_engine_gathers_behind_its_first_piece() -> None:
    stream = flood()
    stream.comes(PIECE + END, QUICK_SECONDS / 4)
    stream.ask()
    assert stream.num_gathered == 1

    stream.comes(HEAD + PIECE, 1.0)

    assert stream.num_gathered == 2
    assert stream.data.endswith(END + PIECE)  # which went on at once


def test_one_piece_at_its_pace_and_an_engine_is_no_longer_quick() -> None:
    stream = flood()
    stream.comes(PIECE, SECONDS + QUICK_SECONDS * 1.01)
    stream.comes(END, QUICK_SECONDS / 4)
    stream.ask()

    stream.comes(HEAD + PIECE)
    for _ in range(NUM_QUICK - 1):
        stream.comes(PIECE, QUICK_SECONDS / 4)

    assert stream.num_gathered == 1


@pytest.mark.parametrize(
    ("others", "milliseconds"),
    [
        pytest.param(0, None, id="alone"),
        pytest.param(STREAMS_A_MILLISECOND // 2 - 2, None, id="few"),
        pytest.param(STREAMS_A_MILLISECOND - 1, 1, id="some"),
        pytest.param(2 * STREAMS_A_MILLISECOND - 1, 2, id="many"),
        pytest.param(1000, 2, id="more-than-the-setting-gives-time-for"),
    ],
)
def test_pieces_wait_the_longer_the_more_streams_are_quick(others: int, milliseconds: int | None) -> None:
    stream = flood(others=others)

    waits = None if stream.timer is None else round((stream.timer[0] - stream.now) * 1000)
    assert waits == milliseconds
    assert stream.wakes_at == (1 if milliseconds is None else ENOUGH_BYTES)


@pytest.mark.parametrize("end", ["complete", "closed", "broken", "cancelled"])
def test_quick_stream_that_is_over_is_counted_no_longer(end: str) -> None:
    stream = flood()
    assert stream.gathering.num_quick == stream.others + 1

    if end == "complete":
        stream.comes(END)
    elif end == "closed":
        stream.upstream.connection_lost(None)
    elif end == "broken":
        stream.comes(b"nonsense")
    else:
        stream.upstream.close()

    assert stream.gathering.num_quick == stream.others
    stream.upstream.connection_lost(None)
    assert stream.gathering.num_quick == stream.others


def test_tokens_at_their_pace_never_wait() -> None:
    stream = Stream()
    stream.comes(HEAD + PIECE)

    for _ in range(50):
        stream.comes(PIECE, QUICK_SECONDS * 1.01)

    assert stream.num_gathered == 0


def test_answers_that_are_no_streams_never_wait() -> None:
    assert flood(head=JSON, num_pieces=20).num_gathered == 0


def test_pieces_worth_a_read_never_wait() -> None:
    stream = flood(num_pieces=NUM_QUICK - 1)

    stream.comes(b"%x\r\n%b\r\n" % (ENOUGH_BYTES, b"x" * ENOUGH_BYTES))

    assert stream.num_gathered == 0


def test_waiting_ends_in_time_though_nothing_comes() -> None:
    stream = flood()
    assert stream.wakes_at == ENOUGH_BYTES

    stream.pass_time(SECONDS)

    assert stream.wakes_at == 1


def test_next_answer_on_the_connection_finds_it_awake() -> None:
    stream = flood()

    stream.comes(END)
    assert (stream.ended, stream.wakes_at) == ("complete", 1)
    stream.ask()
    stream.comes(HEAD + PIECE)
    stream.pass_time(SECONDS)

    assert stream.wakes_at == 1


@pytest.mark.parametrize("end", ["closed", "broken", "cancelled"])
def test_socket_that_is_gone_is_left_alone(end: str) -> None:
    stream = flood()
    marks = stream.wakes_at

    if end == "cancelled":
        stream.upstream.close()
    elif end == "broken":
        stream.comes(b"nonsense")
    else:
        stream.is_closing_ = True
        stream.upstream.connection_lost(None)
    stream.pass_time(SECONDS)

    assert stream.wakes_at == marks  # its number may be another connection's by now
    assert stream.ended == ("" if end == "cancelled" else "broken")


def test_client_that_does_not_keep_up_is_waited_for_though_pieces_gather() -> None:
    stream = flood()

    stream.upstream.pause()
    stream.pass_time(SECONDS)
    assert stream.is_paused
    stream.upstream.resume()

    assert not stream.is_paused


@given(
    gaps=st.lists(st.sampled_from([0.0, 0.0001, 0.0005, 0.0015, 0.01]), min_size=1, max_size=60),
    joined=st.integers(1, 5),
)
def test_stream_arrives_whole_and_in_order_however_its_pieces_come(gaps: list[float], joined: int) -> None:
    stream, pieces = Stream(), [b"1\r\n%c\r\n" % (97 + n % 26) for n in range(len(gaps) * joined)]
    stream.comes(HEAD + pieces[0])
    rest = pieces[1:]

    for gap in gaps:
        part, rest = rest[:joined], rest[joined:]
        if part:
            stream.comes(b"".join(part), gap)
        assert stream.wakes_at == 1 or (stream.timer is not None and stream.timer[0] <= stream.now + SECONDS)
    stream.comes(b"".join(rest) + END)

    assert stream.ended == "complete"
    assert stream.data == b"".join(pieces) + END
    assert stream.wakes_at == 1


def test_kernel_wakes_for_much_for_an_end_and_when_told() -> None:
    def is_awake(sock: socket.socket) -> bool:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))

    wake_at = waker()
    with socket.create_server(("127.0.0.1", 0)) as server:
        engine = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
        with engine, ours:
            wake_at(ours.fileno(), ENOUGH_BYTES)
            engine.sendall(b"few")
            assert not is_awake(ours)
            wake_at(ours.fileno(), 1)
            assert is_awake(ours)
            wake_at(ours.fileno(), ENOUGH_BYTES)
            assert not is_awake(ours)
            engine.close()
            assert select.select([ours], [], [], 5)[0]
