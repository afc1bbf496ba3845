"""The router as a process: it listens, answers what is its own, hands the rest to a replica, and drains."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

from hypertier.errors import ConfigError
from hypertier.router import openai
from hypertier.router.connection import ClientConnection
from hypertier.router.discovery import DnsDiscovery
from hypertier.router.health import HealthChecks
from hypertier.router.kv_streams import KvStreams
from hypertier.router.metrics import CONTENT_TYPE, KvCounts, Metrics, PeerCounts
from hypertier.router.openai import Refusal
from hypertier.router.peers import Peers
from hypertier.router.picking import Picker
from hypertier.router.proxy import Exchange, Proxy
from hypertier.router.replicas import Replica, ReplicaSet, State
from hypertier.router.settings import (
    Address,
    RouterSettings,
    parse_discover,
    parse_peer,
    parse_peers,
    parse_replica,
)
from hypertier.router.sharing import Shared
from hypertier.router.strategies import Strategy, build
from hypertier.router.strategies.kvaware import KvAware
from hypertier.router.wire import BodyBudget, Request

log = logging.getLogger("hypertier.router")

_BACKLOG = 4096
_LOCAL_METHODS = (b"GET", b"HEAD")


class Router:
    """One router; `start` it in a running loop, then `drain` or `stop` it. Several may run in one process.

    Owner of the client connections: `handle` is the way of every request.
    """

    def __init__(self, settings: RouterSettings) -> None:
        self.settings = settings
        self.tick = 0
        self._request_ids = request_ids()
        self.draining = False
        self.max_head_bytes = settings.max_head_bytes
        self.max_body_bytes = settings.max_body_bytes
        self.budget = BodyBudget(settings.max_buffered_bytes)
        self.replicas = ReplicaSet()
        self.strategy: Strategy = build(
            settings.strategy, replicas=self.replicas, index_bytes=settings.index_bytes, now=time.monotonic
        )
        self._kvaware = self.strategy if isinstance(self.strategy, KvAware) else None
        self.peer_counts = PeerCounts()
        self.peers = Peers(self.peer_counts, time.monotonic)
        self._shared: Shared | None = None
        if settings.peer_address is not None:
            self.strategy = self._shared = Shared(
                self.strategy, self.replicas, tell=self.peers.tell, counts=self.peer_counts
            )
        self.metrics = Metrics(self.strategy, self.replicas)
        if self._shared is not None:
            self.metrics.registry.register(self.peer_counts)
        self._kv_streams = self._hear_engines(self._kvaware)
        self.connections: set[ClientConnection] = set()
        self._session_key = settings.session_key.lower().encode() if settings.strategy == "session" else None
        self._keep_prompt = settings.strategy == "kvaware"
        self._hash_prompt = self._keep_prompt or settings.strategy == "prefixaware"
        self._servers: list[asyncio.Server] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._all_closed = asyncio.Event()
        self._health = HealthChecks(
            self.replicas,
            interval_seconds=settings.health_interval_seconds,
            timeout_seconds=settings.health_timeout_seconds,
        )
        self._proxy = Proxy(
            settings=settings,
            picker=Picker(self.strategy, self.replicas),
            replicas=self.replicas,
            metrics=self.metrics,
            now=time.monotonic,
            suspect=self._health.suspect,
        )
        self.replicas.watch(self._replica_changed)

    async def start(self) -> None:
        """Find replicas, check each once, then listen. Raises ConfigError for an address that can't be."""
        loop = asyncio.get_running_loop()
        settings = self.settings
        if settings.discover is not None:
            discovery = DnsDiscovery(
                parse_discover(settings.discover),
                self.replicas,
                interval_seconds=settings.discover_interval_seconds,
            )
            await discovery.step()
            self._tasks.append(loop.create_task(discovery.run()))
        else:
            self.replicas.replace(parse_replica(url) for url in settings.replicas)
        await self._health.first_round()
        await self._start_peers()
        await self._listen("--listen", settings.address, lambda: ClientConnection(self))
        if settings.metrics_address is not None:
            admin = _Admin(self)
            await self._listen("--metrics-port", settings.metrics_address, lambda: ClientConnection(admin))
        self._tasks.append(loop.create_task(self._sweep()))

    @property
    def port(self) -> int:
        """The port that clients connect to, known once started."""
        return int(self._servers[0].sockets[0].getsockname()[1])

    @property
    def metrics_port(self) -> int:
        """The port of `/metrics`, known once started."""
        return int(self._servers[-1].sockets[0].getsockname()[1])

    async def drain(self) -> bool:
        """Say unhealthy, stop accepting, let requests in flight finish; True when all did in time."""
        self.draining = True
        await asyncio.sleep(self.settings.lameduck_seconds)
        for server in self._servers:
            server.close()
        self._close_idle_connections()
        finished = True
        try:
            async with asyncio.timeout(self.settings.drain_seconds):
                while self.connections:
                    self._all_closed.clear()
                    await self._all_closed.wait()
        except TimeoutError:
            finished = False
        await self.stop()
        return finished

    async def stop(self) -> None:
        """Close everything now."""
        self.draining = True
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._health.stop()
        while self.connections:
            self._all_closed.clear()
            for connection in list(self.connections):
                connection.abort()
            await self._all_closed.wait()
        await self.peers.stop()
        if self._kv_streams is not None:
            await self._kv_streams.stop()
        if self._kvaware is not None:
            await self._kvaware.stop()
        self.replicas.replace([])

    # The owner of client connections, see `connection.Owner`.

    def opened(self, connection: ClientConnection) -> None:
        """A client connected."""
        self.connections.add(connection)

    def closed(self, connection: ClientConnection) -> None:
        """A client is gone."""
        self.connections.discard(connection)
        if not self.connections:
            self._all_closed.set()

    def refused(self, refusal: Refusal) -> None:
        """Count what a connection refused itself."""
        self.metrics.answered("", f"{refusal.status // 100}xx")

    def handle(self, connection: ClientConnection, request: Request) -> None:
        """Answer `/health` and `/metrics` here, send all else to a replica."""
        request_id = request.fields.get(b"x-request-id") or next(self._request_ids)
        connection.named(request_id)
        path = request.path
        if path == b"/health":
            self._answer_health(connection, request)
        elif path == b"/metrics" and self.settings.metrics_port is None:
            self.answer_metrics(connection, request)
        elif path == b"/metrics":
            self._refuse(connection, Refusal(404, "metrics are on the port of --metrics-port", "not_found"))
        else:
            inference = openai.read(
                request,
                session_key=self._session_key,
                hash_prompt=self._hash_prompt,
                keep_prompt=self._keep_prompt,
            )
            exchange = Exchange(self._proxy, connection, request, inference, request_id)
            connection.exchange = exchange
            exchange.start()

    def answer_metrics(self, connection: ClientConnection, request: Request) -> None:
        """The router's own metrics, as text."""
        self._answer(connection, request, 200, self.metrics.text(), content_type=CONTENT_TYPE)

    def _answer_health(self, connection: ClientConnection, request: Request) -> None:
        if self.draining:
            self._refuse(
                connection, Refusal(503, "the router is draining", "draining", retry_after_seconds=1)
            )
        elif not self.replicas.healthy:
            self._refuse(connection, Refusal(503, "no healthy replica", "no_replica", retry_after_seconds=1))
        else:
            self._answer(connection, request, 200, b"{}")

    def _answer(
        self,
        connection: ClientConnection,
        request: Request,
        status: int,
        body: bytes,
        content_type: bytes = b"application/json",
    ) -> None:
        if request.method not in _LOCAL_METHODS:
            self._refuse(connection, Refusal(405, "this path answers GET", "method_not_allowed"))
            return
        connection.write(
            openai.response(
                status,
                body,
                content_type=content_type,
                keep_alive=not connection.closes,
                is_head=request.method == b"HEAD",
            )
        )
        connection.finish(keep_alive=True)

    def _refuse(self, connection: ClientConnection, refusal: Refusal) -> None:
        self.refused(refusal)
        connection.refuse(refusal)

    async def _listen(self, setting: str, address: Address, factory: Callable[[], ClientConnection]) -> None:
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(factory, address.host, address.port, backlog=_BACKLOG)
        except OSError as error:
            raise ConfigError(
                setting, str(address), f"an address of this machine that is free ({error})"
            ) from error
        self._servers.append(server)

    def _hear_engines(self, strategy: KvAware | None) -> KvStreams | None:
        """Follow the KV events of all replicas, where the strategy asks for them."""
        if strategy is None:
            return None
        streams = KvStreams(
            self.replicas,
            events_of=lambda replica: self.settings.kv_events_of(replica.address),
            apply=strategy.apply,
            forget=strategy.forget,
        )
        strategy.in_step = streams.in_step
        self.metrics.registry.register(KvCounts(strategy, streams))
        return streams

    async def _start_peers(self) -> None:
        """Hear other routers, and tell them, where the settings name any."""
        settings = self.settings
        if self._shared is None or settings.peer_address is None:
            return
        await self.peers.start(settings.peer_address, self._shared)
        if settings.peers is None:
            self.peers.replace(map(parse_peer, settings.peer))
            return
        discovery = DnsDiscovery(
            parse_peers(settings.peers), self.peers, interval_seconds=settings.discover_interval_seconds
        )
        await discovery.step()
        self._tasks.append(asyncio.get_running_loop().create_task(discovery.run()))

    async def _sweep(self) -> None:
        settings = self.settings
        while True:
            await asyncio.sleep(1.0)
            self.tick += 1
            for connection in list(self.connections):
                connection.sweep(
                    read_timeout=settings.read_timeout_seconds,
                    idle_timeout=settings.idle_timeout_seconds,
                    response_timeout=settings.response_timeout_seconds,
                )

    def _close_idle_connections(self) -> None:
        for connection in list(self.connections):
            if connection.idle:
                connection.close()

    def _replica_changed(self, replica: Replica, reason: str) -> None:
        log.info("replica %s is %s: %s", replica.url, replica.state.value, reason)
        if replica.state is State.EJECTED:
            self.metrics.ejected(replica.url, reason)
        if replica.state is State.LEAVING:
            self.metrics.forget(replica.url)


def request_ids() -> Iterator[bytes]:
    """Names for requests that came without: unlike those of any other router or start of this one."""
    run = secrets.token_hex(8)
    return (b"%s-%x" % (run.encode(), number) for number in count(1))


class _Admin:
    """Owner of the connections to the metrics port: the router, but for the one path it serves."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.max_head_bytes = router.max_head_bytes
        self.max_body_bytes = router.max_body_bytes
        self.budget = router.budget
        self.opened = router.opened
        self.closed = router.closed
        self.refused = router.refused

    @property
    def tick(self) -> int:
        return self._router.tick

    @property
    def draining(self) -> bool:
        return self._router.draining

    def handle(self, connection: ClientConnection, request: Request) -> None:
        if request.path == b"/metrics":
            self._router.answer_metrics(connection, request)
        else:
            connection.refuse(Refusal(404, "this port serves /metrics", "not_found"))


async def serve(settings: RouterSettings, *, started: Callable[[Router], None] | None = None) -> None:
    """Run a router until SIGTERM or SIGINT, then drain it. `started` is called once it listens.

    Raises ConfigError when an address can't be opened.
    """
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    router = Router(settings)
    try:
        await router.start()
        for number in signals:
            loop.add_signal_handler(number, asked_to_stop.set)
        if started is not None:
            started(router)
        await asked_to_stop.wait()
        log.info("draining for up to %g s, %d connection(s)", settings.drain_seconds, len(router.connections))
        await router.drain()
    finally:
        with suppress(ValueError):
            for number in signals:
                loop.remove_signal_handler(number)
        await router.stop()


def run(settings: RouterSettings, *, started: Callable[[Router], None] | None = None) -> None:
    """`serve` on a uvloop of its own."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(settings, started=started))
