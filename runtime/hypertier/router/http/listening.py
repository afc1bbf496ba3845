"""A port that clients connect to, left without losing those whom the kernel has let in already."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypertier.errors import ListenError
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.decrypting import decrypting

BACKLOG = 4096
HANDSHAKE_SECONDS = 5.0
"""For those taken last: they keep a router from its end."""

Factory = Callable[[], asyncio.Protocol]


@dataclass(frozen=True, slots=True)
class Sockets:
    """What a router serves on that its supervisor opened, see `workers.sockets`.

    `workers` is how many ports in a row each router of the endpoint has for others, `peers` this one's own.
    """

    clients: Sequence[socket.socket]
    admin: socket.socket
    peers: socket.socket | None
    workers: int


class Listener:
    """Listens once it is `open`, until it is closed, or until it `leave`s.

    A connection whose handshake is done waits in the kernel until it is taken. To close the socket resets
    those, though another process may listen on the same port.
    """

    def __init__(self, factory: Factory, tls: ssl.SSLContext | None = None) -> None:
        self._factory = decrypting(factory) if tls is not None else factory
        self._tls = tls
        self._servers: list[asyncio.Server] = []

    async def open(self, setting: str, address: Address) -> None:
        """Listen. Raises ConfigError, naming `setting`, for an address that can't be."""
        try:
            self._servers.append(
                await asyncio.get_running_loop().create_server(
                    self._factory, address.host, address.port, backlog=BACKLOG, ssl=self._tls
                )
            )
        except OSError as error:
            raise ListenError(setting, str(address), error) from error

    async def open_on(self, sockets: Sequence[socket.socket]) -> None:
        """Listen on these, which are bound, and are closed with this."""
        for one in sockets:
            self._servers.append(
                await asyncio.get_running_loop().create_server(
                    self._factory, sock=one, backlog=BACKLOG, ssl=self._tls
                )
            )

    @property
    def port(self) -> int:
        """The port, known once it is open."""
        return int(self._servers[0].sockets[0].getsockname()[1])

    def close(self) -> None:
        """Listen no more."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def leave(self) -> None:
        """Listen no more, and take all that wait in the kernel: they were told that they are connected."""
        copies = [
            socket.socket(fileno=os.dup(listening.fileno()))
            for server in self._servers
            for listening in server.sockets
        ]
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
