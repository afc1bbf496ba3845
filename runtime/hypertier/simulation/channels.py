"""What routers tell one another under a simulated clock: their own bytes, a moment later, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from hypertier.router.peers.peers import BATCH_SECONDS, MAX_RETRY_SECONDS, SILENT_SECONDS

NETWORK_SECONDS = 0.003
"""From one router's write to another's read, with two event loops that are busy; an assumption."""

At = Callable[[float, Callable[[float], None]], None]
"""Do something at a time."""


@runtime_checkable
class Speaker(Protocol):
    """A policy that is a router's own code, and tells others what that tells."""

    def said(self) -> bytes:
        """What it has to say since it was asked last."""
        ...

    def in_flight_messages(self) -> bytes:
        """What a router must hear first that hears it from now on."""
        ...

    def heard(self, peer: object, data: bytes, now: float) -> None:
        """Another router said this, on the connection `peer`."""
        ...

    def lost(self, peer: object, now: float) -> None:
        """That connection ended."""
        ...


class Channels:
    """A connection from every router to every other; none where `routers` are none that speak.

    Between the two times of `cut`, nothing comes through: at first nobody knows, after `SILENT_SECONDS` all
    take it that the others are gone, and some time after its end they connect anew.
    """

    def __init__(self, routers: Sequence[Speaker], at: At, cut: tuple[float, float] | None) -> None:
        self._routers = routers
        self._at = at
        self._is_cut = False
        self._connection = 0
        if cut is not None:
            begin, end = cut
            at(begin, self._cut)
            at(begin + SILENT_SECONDS, self._lose)
            at(max(end, begin + SILENT_SECONDS) + MAX_RETRY_SECONDS, self._connect)

    def flush(self, router: int, now: float) -> None:
        """Send what the router has to say, if anything."""
        data = self._routers[router].said() if self._routers else b""
        if data and not self._is_cut:
            self._send(router, data, now)

    def _send(self, router: int, data: bytes, now: float) -> None:
        peer = (router, self._connection)
        for number, other in enumerate(self._routers):
            if number != router:
                self._at(
                    now + BATCH_SECONDS + NETWORK_SECONDS,
                    lambda at, other=other: other.heard(peer, data, at),  # type: ignore[misc]
                )

    def _cut(self, now: float) -> None:
        self._is_cut = True

    def _lose(self, now: float) -> None:
        for number in range(len(self._routers)):
            for other in self._routers:
                other.lost((number, self._connection), now)

    def _connect(self, now: float) -> None:
        self._is_cut = False
        self._connection += 1
        for number, router in enumerate(self._routers):
            router.said()
            self._send(number, router.in_flight_messages(), now)
