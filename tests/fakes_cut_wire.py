"""Something between two ends of TCP connections, on loopback, that a test cuts: both ends go on living."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CutWire:
    """Passes on what comes at `port` to another port of this host. `blocked`, it takes no new connections."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.num_connections = 0
        self.blocked = False

    async def start(self, port: int = 0) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def stop(self) -> None:
        """End it."""
        if self._server is not None:
            self._server.close()
        self.cut()
        while self._writers:
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.blocked:
            writer.transport.abort()
            return
        self.num_connections += 1
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, other_writer}
        try:
            await asyncio.gather(_pass(reader, other_writer), _pass(other_reader, writer))
        finally:
            for one in (writer, other_writer):
                self._writers.discard(one)
                one.transport.abort()


@asynccontextmanager
async def cut_wires(port: int, *targets: int) -> AsyncIterator[list[CutWire]]:
    """A wire to each of the targets, at `port` and those that follow it."""
    wires = [CutWire(target) for target in targets]
    for number, wire in enumerate(wires):
        await wire.start(port + number)
    yield wires
    for wire in wires:
        await wire.stop()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.transport.abort()
