"""The two sides of a client's connection: a router that answers at once, and a transport; time is told."""

from __future__ import annotations

import asyncio
from typing import Any

from hypertier.router.api.openai import Refusal
from hypertier.router.http.connection import ClientConnection
from hypertier.router.http.heads import Request
from hypertier.router.http.wire import BodyBudget


class AtOnce:
    """Answers each request as it comes; `asked` are their paths. Its `tick` is counted up by who has it."""

    max_head_bytes = max_body_bytes = 1 << 20
    idle_ticks = -1
    tick = 0
    draining = False
    check_head = None

    def __init__(self) -> None:
        self.budget = BodyBudget(1 << 20)
        self.asked: list[bytes] = []
        self.refusals: list[int] = []

    def opened(self, connection: ClientConnection) -> None:
        pass

    def closed(self, connection: ClientConnection) -> None:
        pass

    def refused(self, refusal: Refusal) -> None:
        self.refusals.append(refusal.status)

    def handle(self, connection: ClientConnection, request: Request) -> None:
        self.asked.append(request.path)
        connection.finish(keep_alive=True)


class Transport(asyncio.Transport):
    """Takes what it is told; `end` is how it was closed, empty while it is open."""

    is_paused = False
    end = ""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return bool(self.end)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def close(self) -> None:
        self.end = self.end or "closed"

    def abort(self) -> None:
        self.end = "aborted"
