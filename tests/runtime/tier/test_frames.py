"""Messages arrive whole and in order, however the socket cuts them, and the sender never waits."""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
import socket
from collections.abc import Iterator

import pytest

from hypertier.tier.frames import LARGEST_BACKLOG_BYTES, Pipe, Tally, frame, read_message
from hypertier.tier.mapping import new_shared


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_messages_arrive_in_order_once_they_are_whole(ends: tuple[socket.socket, socket.socket]) -> None:
    pipe = Pipe(ends[0])
    sent = frame(["a", 1]) + frame({"b": b"x" * 1000})
    taken = []

    for start in range(0, len(sent), 7):
        ends[1].sendall(sent[start : start + 7])
        taken.append(pipe.take())

    assert [message for messages in taken for message in messages] == [["a", 1], {"b": b"x" * 1000}]
    assert taken[0] == []


def test_what_the_socket_does_not_take_is_sent_by_later_calls(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    pipe = Pipe(ends[0])
    messages = [(number, bytes(100_000)) for number in range(20)]
    for message in messages:
        pipe.put(message)  # more than the socket holds, and nobody reads

    ends[1].setblocking(False)
    with ends[1].makefile("rb") as stream:
        received = [pipe.flush() or read_all(stream) for _ in range(200)]

    joined = b"".join(received)
    assert joined == b"".join(frame(message) for message in messages)


def read_all(stream: object) -> bytes:
    return stream.read() or b""  # type: ignore[attr-defined]


def test_an_end_that_does_not_read_is_given_up(ends: tuple[socket.socket, socket.socket]) -> None:
    pipe = Pipe(ends[0])

    with pytest.raises(ConnectionError, match="does not read"):
        pipe.put(bytes(2 * LARGEST_BACKLOG_BYTES))


def test_an_end_among_more_than_a_thousand_descriptors_waits(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    with socket.socket(fileno=fcntl.fcntl(ends[0], fcntl.F_DUPFD_CLOEXEC, 2000)) as high:
        pipe = Pipe(high)
        ends[1].sendall(frame("a"))

        pipe.wait(60)

        assert pipe.take() == ["a"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_end_that_is_gone_is_told(ends: tuple[socket.socket, socket.socket]) -> None:
    pipe = Pipe(ends[0])
    ends[1].sendall(frame("last words")[:-1])
    ends[1].close()

    with pytest.raises(ConnectionError):
        [pipe.take() for _ in range(2)]
    with pytest.raises(ConnectionError):
        pipe.put("anything")


def test_the_waiting_end_reads_until_the_other_is_gone(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].sendall(frame("a") + frame(None))
    ends[0].close()

    with ends[1].makefile("rb") as stream:
        messages = [read_message(stream), read_message(stream)]
        with pytest.raises(EOFError):
            read_message(stream)

    assert messages == ["a", None]


def test_what_one_process_counts_up_another_sees() -> None:
    page = new_shared("tally", mmap.PAGESIZE)
    seen, counted = Tally(page), Tally(page)
    os.close(page)
    pid = os.fork()
    if pid == 0:
        counted.count_up()
        counted.count_up()
        os._exit(0)
    os.waitpid(pid, 0)

    assert seen.value == 2
