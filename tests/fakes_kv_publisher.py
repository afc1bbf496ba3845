"""Publishes KV events on loopback as an engine does: a PUB socket, and a ROUTER that sends batches again."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
import zmq
import zmq.asyncio

END = (-1).to_bytes(8, "big", signed=True)


def two_free_ports() -> int:
    """The first of two ports in a row that are free."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


class Publisher:
    """One process of an engine. `publish` keeps what it says; with `lost`, subscribers do not hear of it.

    Whether it `answers` who asks for batches may change.
    """

    def __init__(self, port: int, *, started: float = 0.0, keep: int = 100, answers: bool = True) -> None:
        self.port = port
        self.num_replays = 0
        self._times = itertools.count(started)
        self._kept: deque[tuple[bytes, bytes]] = deque(maxlen=keep)
        self._number = 0
        self.answers = answers
        self._context = zmq.asyncio.Context()
        self._pub = self._context.socket(zmq.XPUB)
        self._pub.bind(f"tcp://127.0.0.1:{port}")
        self._router = self._context.socket(zmq.ROUTER)
        self._router.bind(f"tcp://127.0.0.1:{port + 1}")
        self._task = asyncio.get_running_loop().create_task(self._serve())

    async def subscribed(self) -> None:
        """Return once somebody has subscribed."""
        assert await self._pub.recv() == b"\x01"

    async def publish(self, *events: Any, lost: bool = False) -> None:
        """One batch."""
        payload = msgspec.msgpack.encode([next(self._times), events, 0])
        number = self._number.to_bytes(8, "big")
        self._number += 1
        self._kept.append((number, payload))
        if not lost:
            await self._pub.send_multipart([b"", number, payload])

    async def say(self, frames: Sequence[bytes]) -> None:
        """Whatever, as it is."""
        await self._pub.send_multipart(list(frames))

    async def close(self) -> None:
        """End it; its ports are free afterwards."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._context.destroy(linger=0)

    async def _serve(self) -> None:
        while True:
            client, empty, start = await self._router.recv_multipart()
            self.num_replays += 1
            if not self.answers:
                continue
            for number, payload in list(self._kept):
                if number >= start:
                    await self._router.send_multipart([client, empty, b"", number, payload])
            await self._router.send_multipart([client, empty, b"", END, b""])
