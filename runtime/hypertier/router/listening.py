"""A port that clients connect to, left without losing those whom the kernel has let in already."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable

from hypertier.errors import ConfigError
from hypertier.router.settings import Address

BACKLOG = 4096
HANDSHAKE_SECONDS = 5.0
"""For those taken last: they keep a router from its end."""

Factory = Callable[[], asyncio.Protocol]


class Listener:
    """Listens once it is `open`, until it is closed, or until it `leave`s.

    A connection whose handshake is done waits in the kernel until it is taken. To close the socket resets
    those, though another process may listen on the same port.
    """

    def __init__(self, factory: Factory, tls: ssl.SSLContext | None = None) -> None:
        self._factory = factory
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def open(self, setting: str, address: Address, *, reuse_port: bool = False) -> None:
        """Listen. Raises ConfigError, naming `setting`, for an address that can't be."""
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._factory,
                address.host,
                address.port,
                backlog=BACKLOG,
                ssl=self._tls,
                reuse_port=reuse_port,
            )
        except OSError as error:
            raise ConfigError(
                setting, str(address), f"an address of this machine that is free ({error})"
            ) from error

    @property
    def port(self) -> int:
        """The port, known once it is open."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Listen no more."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def leave(self) -> None:
        """Listen no more, and take all that wait in the kernel: they were told that they are connected."""
        if self._server is None:
            return
        copies = [socket.socket(fileno=os.dup(listening.fileno())) for listening in self._server.sockets]
        self.close()
        waiting = [client for copy in copies for client in _take_all(copy)]
        await asyncio.gather(*map(self._serve, waiting))

    async def _serve(self, client: socket.socket) -> None:
        seconds = HANDSHAKE_SECONDS if self._tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._factory, client, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except OSError:  # it went away meanwhile, or its TLS failed
            client.close()


def _take_all(listening: socket.socket) -> list[socket.socket]:
    """Accept until nobody waits, and close at once, before anybody else can come."""
    taken: list[socket.socket] = []
    listening.setblocking(False)
    with listening:
        while True:
            try:
                taken.append(listening.accept()[0])
            except BlockingIOError:
                return taken
            except OSError:  # one that went away, or no more files: what is taken is served
                return taken
