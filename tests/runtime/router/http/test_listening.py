"""Leaving a port: who was let in by the kernel is served."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

import pytest
from fakes_engine import run_loop

from hypertier.errors import ConfigError
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.listening import Listener


class Greeter(asyncio.Protocol):
    """Says hello, and hangs up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(b"hello")
        transport.close()


def test_who_waits_in_the_kernel_is_taken_and_nobody_after() -> None:
    async def act() -> tuple[list[bytes], bool]:
        listener = Listener(Greeter)
        await listener.open("--listen", Address("127.0.0.1", 0))
        port = listener.port
        # Nothing below lets the loop turn before `leave`.
        clients = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(3)]
        await listener.leave()
        heard = [await asyncio.to_thread(client.recv, 16) for client in clients]
        for client in clients:
            client.close()
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            return heard, True
        return heard, False

    assert run_loop(act()) == ([b"hello"] * 3, True)


def test_address_in_use_names_the_flag() -> None:
    async def act() -> None:
        first = Listener(Greeter)
        await first.open("--listen", Address("127.0.0.1", 0))
        try:
            await Listener(Greeter).open("--listen", Address("127.0.0.1", first.port))
        finally:
            first.close()

    with pytest.raises(ConfigError, match=r"--listen is .* \(Address already in use\)$"):
        run_loop(act())
