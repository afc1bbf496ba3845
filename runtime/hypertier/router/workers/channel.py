"""What a supervisor and a worker say to one another: objects of JSON, a line each, over a socket pair.

The supervisor begins with a `Begin`, as one object, and then says `{"do": ...}`: `drain`; `leave`, where
another worker has taken the sockets over; `hurry` with either; or `cover`, with the `slots` of workers that
are away. A worker
says `alive` each second, `ready` with its number of healthy replicas once it serves, or `error` where it
can't, and last its `metrics`.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from hypertier.router.settings import RouterSettings

MAX_LINE_BYTES = 64 * 2**20
ALIVE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Begin:
    """What a worker is: its settings, and the numbers of the files that it inherits.

    `clients` has the sockets of every slot, to stand in where another worker is away.
    """

    slot: int
    settings: RouterSettings
    clients: list[list[int]]
    admin: int
    peers: int | None
    ports: int

    def told(self) -> dict[str, Any]:
        """As an object of JSON."""
        return {name: getattr(self, name) for name in ("slot", "clients", "admin", "peers", "ports")} | {
            "settings": asdict(self.settings)
        }

    @classmethod
    def read(cls, told: dict[str, Any]) -> Begin:
        """What `told` says."""
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in told["settings"].items()
        }
        return cls(**(told | {"settings": RouterSettings(**settings)}))


class Channel:
    """One end. What is said to an end that is gone is lost; `heard` ends when the other has."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def on(cls, one: socket.socket) -> Channel:
        """The end that is this socket."""
        return cls(*await asyncio.open_unix_connection(sock=one, limit=MAX_LINE_BYTES))

    def tell(self, **what: Any) -> None:
        """Say this."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(what).encode() + b"\n")

    async def heard(self) -> AsyncIterator[dict[str, Any]]:
        """What the other says, until it is gone."""
        while line := await self._line():
            yield json.loads(line)

    async def _line(self) -> bytes:
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return b""
        return line if line.endswith(b"\n") else b""  # a line that breaks off was not said

    async def close(self) -> None:
        """Say no more, once all was said."""
        with suppress(ConnectionError):
            await self._writer.drain()
        self._writer.close()
