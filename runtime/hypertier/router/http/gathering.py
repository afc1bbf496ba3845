"""Pieces of streams that come one upon the other, gathered by the kernel: fewer reads and writes for them.

A piece costs the kernel a read and a write, far more than the router's own code. Where an engine sends pieces
faster than anybody reads them, its socket is told for a moment not to wake the router for few bytes
(`SO_RCVLOWAT`, socket(7), read 2026-12-02), and what has come by then is read at once. The router holds
nothing back: all that is read goes on as ever. An engine that closes, or sends much, is read at once.
"""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Callable
from typing import Final, Protocol

QUICK_SECONDS: Final = 0.002
"""Pieces further apart are tokens at their pace, and never wait."""
NUM_QUICK: Final = 3
"""So many have to follow one another quickly before the next may wait."""
ENOUGH_BYTES: Final = 16 * 1024
"""What is worth a read, however little time has passed."""
STREAMS_A_MILLISECOND: Final = 8
"""Reading and writing a piece of each of so many takes the router a good part of that, gathered or not."""


class Waiting(Protocol):
    """A connection whose pieces gather."""

    def gathered(self, now: float) -> None:
        """The moment is over."""
        ...


class Gathering:
    """Lets pieces gather for at most `seconds`; one timer ends it for all that came while it ran.

    The time follows how many quick streams are open: one alone would only be slowed, and of many each waits
    its turn anyway. It is whole milliseconds, as libuv's timers count (docs.libuv.org, `uv_timer_start`, read
    2026-12-02), where `seconds` is not less. `num_quick` is kept by those whose streams are. `wake_at` tells
    a socket how many bytes to wake for.
    """

    def __init__(
        self,
        seconds: float,
        now: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
        wake_at: Callable[[int, int], object],
    ) -> None:
        self.now = now
        self.num_quick = 0
        self._seconds = seconds
        self._call_later = call_later
        self._wake_at = wake_at
        self._waiting: list[Waiting] = []

    def begin(self, connection: Waiting, fd: int) -> bool:
        """Its pieces may gather until it is told; False where there are too few streams for that."""
        milliseconds = (self.num_quick + STREAMS_A_MILLISECOND // 2) // STREAMS_A_MILLISECOND
        if not milliseconds:
            return False
        self._wake_at(fd, ENOUGH_BYTES)
        if not self._waiting:
            self._call_later(min(self._seconds, milliseconds / 1000), self._end)
        self._waiting.append(connection)
        return True

    def end(self, fd: int) -> None:
        """The next byte counts again."""
        self._wake_at(fd, 1)

    def _end(self) -> None:
        waiting, self._waiting = self._waiting, []
        now = self.now()
        for connection in waiting:
            connection.gathered(now)


def waker() -> Callable[[int, int], object]:
    """`wake_at` of this system; a transport's own socket copies its descriptor for each call, at five times
    the cost. Where it fails the socket wakes for every byte, as it did."""
    setsockopt = ctypes.PyDLL(None).setsockopt
    values = {num_bytes: ctypes.byref(ctypes.c_int(num_bytes)) for num_bytes in (1, ENOUGH_BYTES)}
    level, option, size = socket.SOL_SOCKET, socket.SO_RCVLOWAT, ctypes.sizeof(ctypes.c_int)

    def wake_at(fd: int, num_bytes: int) -> object:
        return setsockopt(fd, level, option, values[num_bytes], size)

    return wake_at
