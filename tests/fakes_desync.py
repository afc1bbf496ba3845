"""Two pipelined requests through a router, the first whatever somebody made of it, and who got which."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import uvloop
from fakes_engine import FakeEngine, RawClient, Received, json_answer
from fakes_router import routed

SECOND = b"POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecond"
PATIENCE_TICKS = 5.0
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of it: statuses in their order, and the lines and bodies that engines got."""

    statuses: Sequence[int]
    targets: Sequence[bytes]
    bodies: Sequence[bytes]
    health: int

    @property
    def served_second(self) -> bool:
        """The second request was read as it was written."""
        return b"/second" in self.targets


async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(json_answer(request.line.split(b" ")[1]))


class Path:
    """A router and an engine that last as long as this is open; `send` uses a new connection each time."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._stack = AsyncExitStack()
        self._engine = FakeEngine(echo)

    def __enter__(self) -> Path:
        made = routed(
            self._engine,
            strategy="prefixaware",
            max_body_bytes=65536,
            max_head_bytes=8192,
            read_timeout_seconds=PATIENCE_TICKS,
            idle_timeout_seconds=PATIENCE_TICKS,
        )
        self._router = self._runner.run(self._stack.enter_async_context(made))
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def send(self, first: bytes, cuts: Sequence[int] = ()) -> Heard:
        """Send `first` and SECOND right behind it, in the pieces that `cuts` make of both."""
        return self._runner.run(self._send(first + SECOND, cuts))

    @property
    def held_bytes(self) -> int:
        """Of bodies, once nothing is in flight."""
        return self._router.budget.held_bytes

    async def _send(self, data: bytes, cuts: Sequence[int]) -> Heard:
        self._engine.received.clear()
        client = await RawClient.connect(self._router.port)
        begin = 0
        for end in (*sorted(cut % len(data) for cut in cuts), len(data)):
            client.send(data[begin:end])
            begin = end
            await asyncio.sleep(0)
        statuses: list[int] = []
        reading = asyncio.ensure_future(self._read(client, statuses))
        while not reading.done():  # a request that never ends, or an idle connection, is ended by ticks alone
            await asyncio.sleep(0.001)
            self._router.front.sweep()
        await reading
        other = await RawClient.connect(self._router.port)
        other.send(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        health = (await other.answer()).status
        RawClient.close_all()
        received = list(self._engine.received)
        return Heard(
            statuses,
            [request.line.split(b" ")[1] for request in received],
            [request.body for request in received],
            health,
        )

    async def _read(self, client: RawClient, statuses: list[int]) -> None:
        """Every answer until the router closes."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                statuses.append((await client.answer()).status)
