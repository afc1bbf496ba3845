"""Messages between the engine and its mover process, over a socket pair: a length, then what `marshal` makes
of tuples, lists, dictionaries, numbers, text and bytes.

Both ends are processes of this project, run by the same Python, and nobody else has the socket. The engine
reads some of them in each step, with its caches full of something else: `pickle` would touch much more.
"""

from __future__ import annotations

import marshal
import mmap
import select
import socket
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<I")
RECEIVE_BYTES = 64 * 1024
LARGEST_BACKLOG_BYTES = 16 * 1024 * 1024


def frame(message: Any) -> bytes:
    """Encode a message."""
    body = marshal.dumps(message)
    return _LENGTH.pack(len(body)) + body


def read_message(stream: BinaryIO) -> Any:
    """Wait for the next message.

    Raises:
        EOFError: the other end is gone.
    """
    head = stream.read(_LENGTH.size)
    body = stream.read(_LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else b""
    if not body:
        raise EOFError
    return marshal.loads(body)


class Tally:
    """How often one process has begun or ended a message: another one sees it without asking the kernel.

    Odd while a message is under way, of which the socket may hold a part. `descriptor` is of a file of a
    page; it may be closed then.
    """

    def __init__(self, descriptor: int) -> None:
        self._cell = memoryview(mmap.mmap(descriptor, mmap.PAGESIZE)).cast("Q")

    @property
    def value(self) -> int:
        """How often it was counted up."""
        return self._cell[0]

    def count_up(self) -> None:
        """Count up, by the only thread that does."""
        self._cell[0] += 1


class Pipe:
    """The end that never waits: what the socket does not take now is sent later.

    Every call raises `ConnectionError` when the other end is gone, `put` also when it has not read for so
    long that `LARGEST_BACKLOG_BYTES` are waiting.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.setblocking(False)
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._received = memoryview(bytearray(RECEIVE_BYTES))

    @property
    def is_behind(self) -> bool:
        """Whether there is something that the socket did not take yet."""
        return bool(self._outgoing)

    def put(self, message: Any) -> None:
        """Send a message, now or by a later call."""
        self._outgoing += frame(message)
        self.flush()
        if len(self._outgoing) > LARGEST_BACKLOG_BYTES:
            raise ConnectionError("the other end does not read")

    def flush(self) -> None:
        """Send what the socket takes."""
        while self._outgoing:
            try:
                num_sent = self._socket.send(self._outgoing)
            except BlockingIOError:
                return
            del self._outgoing[:num_sent]

    def take(self) -> list[Any]:
        """Return the messages that have arrived whole."""
        self.flush()
        while True:
            try:
                num_received = self._socket.recv_into(self._received)
            except BlockingIOError:
                break
            if not num_received:
                raise ConnectionError("the other end is gone")
            self._incoming += self._received[:num_received]
            if num_received < RECEIVE_BYTES:
                break
        messages = []
        while len(self._incoming) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._incoming)[0]
            if len(self._incoming) < end:
                break
            messages.append(marshal.loads(self._incoming[_LENGTH.size : end]))
            del self._incoming[:end]
        return messages

    def wait(self, seconds: float) -> None:
        """Wait until there is something to take, or to send."""
        poll = select.poll()  # an engine may have more descriptors than `select.select` can name
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        poll.poll(seconds * 1000)

    def close(self) -> None:
        """Close this end; the other one reads an end of file."""
        self._socket.close()
