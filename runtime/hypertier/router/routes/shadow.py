"""Copies of requests whose answers nobody reads: how a new model takes real traffic."""

from __future__ import annotations

from collections import Counter

from hypertier.router.api.openai import Refusal
from hypertier.router.http.connection import Pending
from hypertier.router.http.sides import Client

MAX_IN_FLIGHT = 64
MAX_BODY_BYTES = 2**20
"""What copies may hold beside the clients' own, times the number above."""


class Shadows:
    """Those in flight; `ended` counts how: `answered`, `refused` or `broken`; `skipped` were never sent."""

    def __init__(self) -> None:
        self.in_flight: set[ShadowClient] = set()
        self.ended: Counter[str] = Counter()

    def admits(self, num_bytes: int) -> bool:
        """One more, of this size, may be sent."""
        if len(self.in_flight) < MAX_IN_FLIGHT and num_bytes <= MAX_BODY_BYTES:
            return True
        self.ended["skipped"] += 1
        return False

    def stop(self) -> None:
        """End all."""
        for client in list(self.in_flight):
            if client.exchange is not None:
                client.exchange.cancel()

    def sweep(self, tick: int, response_timeout: float) -> None:
        """Once a tick, as `connection`: a copy waits for a silent engine no longer than a client's own."""
        for client in list(self.in_flight):
            exchange = client.exchange
            if exchange is None:
                continue
            if exchange.last_tick < 0:
                exchange.last_tick = tick
            elif tick - exchange.last_tick > response_timeout:
                exchange.time_out()


class ShadowClient(Client):
    """Where a copy's answer goes: nowhere."""

    def __init__(self, shadows: Shadows) -> None:
        self.exchange: Pending | None = None
        self._shadows = shadows
        shadows.in_flight.add(self)

    @property
    def closes(self) -> bool:
        """It has no connection."""
        return False

    def write(self, data: bytes) -> None:
        """Nobody reads it."""

    def finish(self, *, keep_alive: bool) -> None:
        """It was answered."""
        self._end("answered")

    def refuse(self, refusal: Refusal) -> None:
        """No replica answered it."""
        self._end("refused")

    def truncate(self) -> None:
        """Its answer broke off."""
        self._end("broken")

    def _end(self, how: str) -> None:
        self._shadows.in_flight.discard(self)
        self._shadows.ended[how] += 1
