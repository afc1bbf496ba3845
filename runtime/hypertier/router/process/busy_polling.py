"""An event loop that stays awake for its clients: no request waits until an idle CPU has woken."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

LOOK_SECONDS = 0.01  # between two looks for a client, while there is none


class BusyPolling:
    """Keeps the running loop from sleeping while there are `connections`, as HAProxy's `busy-polling` does.

    Each turn asks for another, so that sockets are polled without a timeout. A CPU is fully used from the
    first client's connection to the last one's end; other threads of the process go on, since the
    interpreter is let go at each poll.
    https://git.haproxy.org/git/haproxy.git beb859ab, doc/configuration.txt (read 2026-12-03)
    """

    def __init__(self, connections: Collection[object]) -> None:
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None

    def start(self) -> None:
        """Begin to look for clients, and to stay awake for them."""
        self._turn()

    def stop(self) -> None:
        """Let the loop sleep again."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _turn(self) -> None:
        if self._connections:
            self._next = self._loop.call_soon(self._turn)
        else:
            self._next = self._loop.call_later(LOOK_SECONDS, self._turn)
