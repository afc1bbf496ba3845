"""The connections between the routers of one endpoint: each tells all others, and hears each of them.

A router connects to every other and speaks; it listens, and hears those that connect to it. So each pair has
two connections, and each carries one router's news.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Protocol, cast

from hypertier.errors import ListenError, PeerError
from hypertier.router.discovery.addresses import Address
from hypertier.router.peers import news
from hypertier.router.peers.news import GREETING_BYTES, Alive, News, Reader
from hypertier.router.process.tasks import Tasks
from hypertier.router.telemetry.metrics import PeerCounts

log = logging.getLogger("hypertier.router")

MAX_PEERS = 64
BATCH_SECONDS = 0.002
"""News wait this long for more; the scoring stands news that are 5 ms old."""
MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""A router that has so much of what it was told still to read is too slow to be told more."""
CONNECT_SECONDS = 3.0
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.2, 5.0
ALIVE_SECONDS = 1.0
SILENT_SECONDS = 5.0
"""A router that is silent for so long is frozen or cut off: it says that it is alive more often."""


class Sharing(Protocol):
    """What hears the news, and knows what to say first; see `sharing.Shared`."""

    def in_flight_messages(self) -> tuple[bytes, int]:
        """All that a router must hear that hears this one from now on, and how many requests that is."""
        ...

    def heard(self, peer: Hashable, what: News, now: float) -> None:
        """Another router says so. Raises PeerError for what can't be."""
        ...

    def lost(self, peer: Hashable, now: float) -> None:
        """That connection ended."""
        ...


class Peers:
    """All other routers. A connection that ends is made anew, after a pause that grows and differs.

    Nothing is ever told twice or left out: a router that does not keep up loses its connection, and begins
    again with what is then in flight. Never more than `MAX_QUEUED_BYTES` and one batch wait for one router.
    """

    def __init__(
        self,
        counts: PeerCounts,
        now: Callable[[], float],
        *,
        retry_seconds: float = MIN_RETRY_SECONDS,
        alive_seconds: float = ALIVE_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        failures: Counter[str] | None = None,
    ) -> None:
        self.router_id = secrets.token_bytes(news.ID_BYTES)
        self.counts = counts
        self.now = now
        self.silent_seconds = silent_seconds
        self.max_queued_bytes = max_queued_bytes
        self.incoming: set[Incoming] = set()
        self._retry_seconds = retry_seconds
        self._alive_seconds = alive_seconds
        self._outgoing: set[Outgoing] = set()
        self._keepers: Tasks[Address | None] = Tasks("telling of routers", failures)
        self._waiting: list[bytes] = []
        self._flush_at: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._handed_over = asyncio.Event()
        self.ports = 1
        self._num_listed = 0
        self._listed: set[Address] = set()

    async def start(self, listen: Address, sharing: Sharing, bound: socket.socket | None = None) -> None:
        """Listen for other routers, on the socket that is bound there already, where there is one.

        Raises ConfigError for an address that can't be."""
        self.sharing = sharing
        loop = asyncio.get_running_loop()
        try:
            if bound is not None:
                self._server = await loop.create_server(lambda: Incoming(self), sock=bound)
            else:
                self._server = await loop.create_server(lambda: Incoming(self), listen.host, listen.port)
        except OSError as error:
            raise ListenError("--peer-listen", str(listen), error) from error
        self._keepers.start(None, self._sweep)

    @property
    def port(self) -> int:
        """The port that other routers connect to, known once started."""
        return int(cast(asyncio.Server, self._server).sockets[0].getsockname()[1])

    def replace(self, addresses: Iterable[Address]) -> None:
        """Tell the routers there, `MAX_PEERS` at most, and no others; its own address does no harm.

        A router of several workers has as many `ports` in a row, of which the first is known.
        """
        self._listed = set(addresses)
        every = [Address(one.host, one.port + more) for one in self._listed for more in range(self.ports)]
        wanted = set(sorted(every, key=str)[:MAX_PEERS])
        if len(every) > MAX_PEERS and len(every) != self._num_listed:
            log.warning(
                "of %d other routers (their workers counted) the first %d are told what this one sends",
                len(every),
                MAX_PEERS,
            )
        self._num_listed = len(every)
        for address in self._keepers.keys - wanted - {None}:
            self._keepers.end(address)
        for address in wanted:
            self._keepers.start(address, partial(self._keep, address))

    def change(self, came: Iterable[Address], gone: Iterable[Address]) -> None:
        """Tell these as well, and those no longer."""
        self.replace((self._listed | set(came)) - set(gone))

    def tell(self, message: bytes) -> None:
        """Tell every router that hears this one, with what else there is within `BATCH_SECONDS`."""
        if not self._outgoing:
            return
        self._waiting.append(message)
        if self._flush_at is None:
            self._flush_at = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._flush)

    def hand_over(self) -> None:
        """Hear nobody any more, since another has this one's port, and tell that one what is in flight."""
        if self._server is not None:
            self._server.close()
        for incoming in list(self.incoming):
            incoming.end()
        self._handed_over.set()

    async def stop(self) -> None:
        """End all connections; what others told is forgotten."""
        await self._keepers.stop()
        if self._server is not None:
            self._server.close()
        if self._flush_at is not None:
            self._flush_at.cancel()
        for incoming in list(self.incoming):
            incoming.end()

    def greeted(self, link: Outgoing) -> None:
        """The router there listens: it hears all from now on, and first what is in flight."""
        self._flush()
        data, num_requests = self.sharing.in_flight_messages()
        link.write(data)
        self.counts.num_out += num_requests
        self._outgoing.add(link)
        self.counts.num_told = len(self._outgoing)

    def gone(self, link: Outgoing) -> None:
        """That connection ended."""
        self._outgoing.discard(link)
        self.counts.num_told = len(self._outgoing)

    def _flush(self) -> None:
        if self._flush_at is not None:
            self._flush_at.cancel()
            self._flush_at = None
        messages, self._waiting = self._waiting, []
        if not messages:
            return
        data = b"".join(messages)
        for link in list(self._outgoing):
            if link.num_queued > self.max_queued_bytes:
                self.counts.dropped["slow"] += len(messages)
                link.lose("slow")
            else:
                link.write(data)
                self.counts.num_out += len(messages)

    async def _keep(self, address: Address) -> None:
        """One connection after the other, until cancelled or found to be this router itself."""
        num_failures = 0
        while True:
            began = self.now()
            link = Outgoing(self)
            try:
                await self._run(link, address)
            except TimeoutError:
                link.lose("silent")
            except OSError:
                self.counts.losses["connect"] += 1
            finally:
                link.end()
            if link.is_self:
                await self._handed_over.wait()  # from then on, another is there
            if self.now() - began > MAX_RETRY_SECONDS:
                num_failures = 0
            longest = min(self._retry_seconds * 2**num_failures, MAX_RETRY_SECONDS)
            num_failures = min(num_failures + 1, 10)
            await asyncio.sleep(random.uniform(longest / 2, longest))

    async def _run(self, link: Outgoing, address: Address) -> None:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().create_connection(lambda: link, address.host, address.port)
            await link.greeting
        await link.closed

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._alive_seconds)
            for outgoing in list(self._outgoing):
                if outgoing.num_queued <= self.max_queued_bytes:
                    outgoing.write(news.ALIVE_MESSAGE)
            for incoming in list(self.incoming):
                if self.now() - incoming.heard_at > self.silent_seconds:
                    incoming.lose("silent")


class _Link(asyncio.Protocol):
    """One connection: greets, reads the other's greeting, and counts why it ended."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self.peer_id: bytes | None = None
        self._transport: asyncio.Transport | None = None
        self._begin = b""
        self._ended = False

    def write(self, data: bytes) -> None:
        """Send on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def lose(self, cause: str) -> None:
        """End it, and count why."""
        if not self._ended:
            self.peers.counts.losses[cause] += 1
            self.end()

    def end(self) -> None:
        """End it at once."""
        if not self._ended:
            self._ended = True
            if self._transport is not None:
                self._transport.abort()
            self.over()

    def over(self) -> None:
        """It ended, for whatever reason; called once."""
        raise NotImplementedError

    def read(self, data: bytes) -> None:
        """What comes behind the greeting. Raises PeerError for what can't be."""
        raise NotImplementedError

    def met(self, router_id: bytes) -> None:
        """The other's greeting came, and this router can talk to it."""
        raise NotImplementedError

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux: a machine that is gone resets nothing
            milliseconds = round(2000 * SILENT_SECONDS)
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        self._transport.write(news.greeting(self.peers.router_id))

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        try:
            if self.peer_id is None:
                missing = GREETING_BYTES - len(self._begin)
                self._begin += data[:missing]
                data = data[missing:]
                if len(self._begin) < GREETING_BYTES:
                    return
                self.peer_id = news.read_greeting(self._begin)
                self.met(self.peer_id)
            if data:
                self.read(data)
        except PeerError as error:
            self._refuse(error.cause)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose("closed")

    def _refuse(self, cause: str) -> None:
        """End it once the other has what was written, its greeting included, so that it can count, too."""
        self.peers.counts.losses[cause] += 1
        self.part()

    def part(self) -> None:
        """End it once the other has what was written."""
        if not self._ended:
            self._ended = True
            cast(asyncio.Transport, self._transport).close()
            self.over()


class Outgoing(_Link):
    """This router tells another. `greeting` and `closed` are done when that greeted, and when it ended."""

    def __init__(self, peers: Peers) -> None:
        super().__init__(peers)
        loop = asyncio.get_running_loop()
        self.greeting: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.is_self = False

    @property
    def num_queued(self) -> int:
        """Bytes that the other has still to take."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def met(self, router_id: bytes) -> None:
        """Tell it what is in flight, unless it is this router."""
        if router_id == self.peers.router_id:
            self.is_self = True
            self.end()
            return
        self.greeting.set_result(None)
        self.peers.greeted(self)

    def read(self, data: bytes) -> None:
        """The other listens; it has nothing to say."""
        raise PeerError("malformed", "it speaks where it should listen")

    def over(self) -> None:
        """Let the keeper make another."""
        for future in (self.greeting, self.closed):
            if not future.done():
                future.set_result(None)
        self.peers.gone(self)


class Incoming(_Link):
    """Another router tells this one."""

    def __init__(self, peers: Peers) -> None:
        super().__init__(peers)
        self.heard_at = peers.now()
        self._reader = Reader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self.peers.incoming) >= MAX_PEERS:
            self.lose("too_many")
            return
        self.peers.incoming.add(self)

    def met(self, router_id: bytes) -> None:
        """Hear it, in place of what it said on an earlier connection."""
        if router_id == self.peers.router_id:
            self.part()
            return
        for other in list(self.peers.incoming):
            if other is not self and other.peer_id == router_id:
                other.lose("replaced")
        self._count()

    def read(self, data: bytes) -> None:
        """News."""
        now = self.heard_at = self.peers.now()
        sharing, counts = self.peers.sharing, self.peers.counts
        for what in self._reader.feed(data):
            if not isinstance(what, Alive):
                counts.num_in += 1
                sharing.heard(self, what, now)

    def over(self) -> None:
        """Forget what it has in flight."""
        self.peers.incoming.discard(self)
        self.peers.sharing.lost(self, self.peers.now())
        self._count()

    def _count(self) -> None:
        self.peers.counts.num_heard = sum(link.peer_id is not None for link in self.peers.incoming)
