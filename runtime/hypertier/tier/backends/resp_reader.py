"""Reading RESP2, the reply format of Redis and Valkey, from a stream of bytes.

https://redis.io/docs/latest/develop/reference/protocol-spec/ (read 2026-12-01)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hypertier.errors import TierProtocolError
from hypertier.tier.backends.backend import Listener

BUFFER_BYTES = 64 * 1024
PART_BYTES = 512 * 1024  # what the second cache of a CPU has room for, and more costs less
LARGEST_BULK_BYTES = 1024 * 1024
LARGEST_SKIPPED_BYTES = 16 * 1024 * 1024
LARGEST_ARRAY = 65_536
DEEPEST_ARRAY = 4


@dataclass(frozen=True)
class ErrorReply:
    """What the server answers to a command that it refuses:

    `MOVED 3999 10.0.0.1:6379`, `OOM command not ...`.
    """

    message: str

    @property
    def code(self) -> str:
        """The first word, in capitals by convention."""
        return self.message.partition(" ")[0]


Reply = ErrorReply | bytes | int | list["Reply"] | None


class ReplyReader:
    """Takes replies from a stream. `recv_into` fills a part of what it is given and returns how much, 0 at
    the end. `recv_all`, where there is one, fills a part of several buffers, in as few calls as it can.

    Raises `ConnectionError` when the stream ends and `TierProtocolError` when it holds no RESP; then the
    stream is of no further use. Errors of `recv_into` pass through.
    """

    def __init__(
        self,
        recv_into: Callable[[memoryview], int],
        recv_all: Callable[[Sequence[memoryview]], int] | None = None,
    ) -> None:
        self._recv_into = recv_into
        self._recv_all = recv_all or (lambda buffers: recv_into(buffers[0]))
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._start = 0
        self._end = 0

    def read(self, depth: int = 0) -> Reply:
        """Return the next reply; simple and bulk strings alike come as bytes."""
        kind, rest = self._header()
        if kind == b"+":
            return rest
        if kind == b"-":
            return ErrorReply(rest.decode("utf-8", "replace"))
        number = _number(rest)
        if kind == b":":
            return number
        if kind == b"$":
            return self._bulk(number)
        if kind == b"*" and depth < DEEPEST_ARRAY and -1 <= number <= LARGEST_ARRAY:
            return None if number == -1 else [self.read(depth + 1) for _ in range(number)]
        raise TierProtocolError(f"a reply begins with {(kind + rest)[:32]!r}")

    def read_into(
        self, buffers: Sequence[memoryview], listener: Listener | None = None
    ) -> int | ErrorReply | None:
        """Receive a bulk string into `buffers`, one after the other, and return its length, None if there is
        none. `listener` is told of it in parts of at most `PART_BYTES`.

        A value of another length than theirs together is skipped.
        """
        kind, rest = self._header()
        if kind == b"-":
            return ErrorReply(rest.decode("utf-8", "replace"))
        if kind != b"$":
            raise TierProtocolError(f"a value begins with {(kind + rest)[:32]!r}")
        length = _number(rest)
        if length == -1:
            return None
        if length == sum(map(len, buffers)):
            self._value(buffers, listener)
        else:
            self._skip(length)
            self._end_of_bulk()
        return length

    def _value(self, buffers: Sequence[memoryview], listener: Listener | None) -> None:
        ending = bytearray(2)
        if listener is None:
            self._exactly(*buffers, memoryview(ending))
        else:
            tell = listener()
            *parts, last = [*parts_of(buffers)] or [memoryview(b"")]
            for part in parts:
                self._exactly(part)
                tell(part)
            self._exactly(last, memoryview(ending))
            tell(last)
        check_ending(ending)

    def _bulk(self, length: int) -> bytes | None:
        if length == -1:
            return None
        if not 0 <= length <= LARGEST_BULK_BYTES:
            raise TierProtocolError(f"a string of {length} bytes where a short one was expected")
        value = bytearray(length)
        self._exactly(memoryview(value))
        self._end_of_bulk()
        return bytes(value)

    def _header(self) -> tuple[bytes, bytes]:
        line = self._line()
        if not line:
            raise TierProtocolError("a reply begins with an empty line")
        return line[:1], line[1:]

    def _line(self) -> bytes:
        searched = self._start
        while True:
            at = self._find_newline(searched)
            if at is not None:
                line = bytes(self._buffer[self._start : at - 1])
                if self._buffer[at - 1] != 0x0D or at == self._start:
                    raise TierProtocolError(f"a line without CR: {line[:32]!r}")
                self._start = at + 1
                return line
            pending = self._end - self._start
            if pending == BUFFER_BYTES:
                raise TierProtocolError(f"a line of more than {BUFFER_BYTES} bytes")
            self._fill()
            searched = self._start + pending

    def _find_newline(self, start: int) -> int | None:
        at = bytes(self._buffer[start : self._end]).find(b"\n")
        return None if at == -1 else start + at

    def _fill(self) -> None:
        pending = self._end - self._start
        if self._start:
            self._buffer[:pending] = bytes(self._buffer[self._start : self._end])
            self._start, self._end = 0, pending
        self._end += self._receive(self._buffer[self._end :])

    def _exactly(self, *targets: memoryview) -> None:
        left: list[memoryview] = []
        for target in targets:
            have = min(len(target), self._end - self._start)
            target[:have] = self._buffer[self._start : self._start + have]
            self._start += have
            if have < len(target):
                left.append(target[have:])
        while left:
            drop(left, at_least_one(self._recv_all(left)))

    def _skip(self, length: int) -> None:
        if not 0 <= length <= LARGEST_SKIPPED_BYTES:
            raise TierProtocolError(f"a value of {length} bytes under a key of ours")
        while length > 0:
            if self._start == self._end:
                self._fill()
            step = min(length, self._end - self._start)
            self._start += step
            length -= step

    def _end_of_bulk(self) -> None:
        ending = bytearray(2)
        self._exactly(memoryview(ending))
        check_ending(ending)

    def _receive(self, target: memoryview) -> int:
        return at_least_one(self._recv_into(target))


def parts_of(buffers: Sequence[memoryview]) -> Iterator[memoryview]:
    """Cut buffers into parts of at most `PART_BYTES`."""
    for buffer in buffers:
        for start in range(0, len(buffer), PART_BYTES):
            yield buffer[start : start + PART_BYTES]


def at_least_one(num_bytes: int) -> int:
    """Check that the stream has not ended."""
    if num_bytes == 0:
        raise ConnectionError("L2 closed the connection")
    return num_bytes


def check_ending(ending: bytearray) -> None:
    """Check what stands behind a bulk string."""
    if ending != b"\r\n":
        raise TierProtocolError("a string is longer than it says")


def drop(buffers: list[memoryview], num_bytes: int) -> None:
    """Take the first `num_bytes`, which are done with, off a list of buffers."""
    while buffers and num_bytes >= len(buffers[0]):
        num_bytes -= len(buffers.pop(0))
    if buffers:
        buffers[0] = buffers[0][num_bytes:]


def _number(text: bytes) -> int:
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19:
        raise TierProtocolError(f"{text[:32]!r} where a number was expected")
    return int(text)
