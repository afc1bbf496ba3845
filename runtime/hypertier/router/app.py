"""The router: built from its settings, it finds replicas, listens, and drains."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from typing import Any

from hypertier.router import compiled
from hypertier.router.access import build as access
from hypertier.router.access.metrics import AccessMetrics, PoolMetrics
from hypertier.router.admin import Admin, is_loopback
from hypertier.router.admission import Admission
from hypertier.router.capture.capture import Capture, CaptureCounts
from hypertier.router.discovery.addresses import (
    Address,
    Service,
    parse_discover,
    parse_peer,
    parse_peers,
    parse_replica,
)
from hypertier.router.discovery.discovery import discover
from hypertier.router.front import Front
from hypertier.router.guardrail import Guard, GuardCounts
from hypertier.router.holding import HoldCounts, Holding
from hypertier.router.http.connection import accepted
from hypertier.router.http.gathering import Gathering, waker
from hypertier.router.http.listening import HANDSHAKE_SECONDS, Listener, Sockets
from hypertier.router.http.tls import tls_of
from hypertier.router.kv.kv_streams import KvStreams
from hypertier.router.kv.verifying import Verifier
from hypertier.router.migration.migration import Migration, MigrationCounts
from hypertier.router.peers.peers import Peers
from hypertier.router.peers.sharing import Shared, Sides
from hypertier.router.picking import Picker
from hypertier.router.prefill.prefill_side import PrefillSide
from hypertier.router.process.asked import ended
from hypertier.router.process.busy_polling import BusyPolling
from hypertier.router.process.own_limits import OwnLimits
from hypertier.router.process.stamps import Complaint
from hypertier.router.proxy import Proxy
from hypertier.router.replicas.cache_sizes import CacheSizes
from hypertier.router.replicas.health import HealthChecks
from hypertier.router.replicas.model_reading import ModelReading
from hypertier.router.replicas.models import Models
from hypertier.router.replicas.outliers import Outliers, RetryBudget
from hypertier.router.replicas.replicas import Listed, Replica, ReplicaSet, State
from hypertier.router.replicas.sizing import Sizing
from hypertier.router.routes.canary import Canaries
from hypertier.router.routes.route_file import RouteFile
from hypertier.router.routes.routes import Routes
from hypertier.router.settings import RouterSettings, parse_alias
from hypertier.router.strategies import build
from hypertier.router.strategies.kvaware import KvAware
from hypertier.router.strategies.strategy import Strategy
from hypertier.router.strategies.switching import Switching
from hypertier.router.telemetry.cache_metrics import KvCounts, SizeCounts
from hypertier.router.telemetry.metrics import (
    Discoveries,
    FailureCounts,
    Metrics,
    ModelCounts,
    PeerCounts,
    PrefillCounts,
    ProtectionCounts,
    RouteCounts,
    TlsCounts,
)
from hypertier.router.telemetry.tracing import Tracing

log = logging.getLogger("hypertier.router")


class Router:
    """One router; `start` it in a running loop, then `drain` or `stop` it. Several may run in one process.

    It builds the parts and ties them together; `front` has the way of a request. `admission`, where given,
    decides about each. It listens on `sockets`, where a supervisor opened some.
    """

    def __init__(
        self,
        settings: RouterSettings,
        *,
        admission: Admission | None = None,
        sockets: Sockets | None = None,
    ) -> None:
        self.settings = settings
        self._sockets = sockets
        self._client_tls, self._engine_tls, self.certificates = tls_of(settings)
        self.replicas = ReplicaSet(tls=self._engine_tls)
        sizes = CacheSizes(settings.l1_tokens)

        def made(name: str) -> Strategy:
            return build(
                name,
                replicas=self.replicas,
                index_bytes=settings.index_bytes,
                sizes=sizes,
                now=time.monotonic,
            )

        self.strategy: Strategy = made(settings.strategy)
        self._kvaware = self.strategy if isinstance(self.strategy, KvAware) else None
        self._switching: Switching | None = None
        if settings.routes is not None:
            names = {"roundrobin", "session"} | ({"prefixaware"} if self._kvaware is None else set())
            others = {name: made(name) for name in names if name != settings.strategy}
            self._switching = Switching(settings.strategy, {settings.strategy: self.strategy} | others)
            self.strategy = self._switching
        self.peer_counts = PeerCounts()
        self.background_failures: Counter[str] = Counter()
        self.peers = Peers(self.peer_counts, time.monotonic, failures=self.background_failures)
        self._shared: list[Shared] = []
        numbers = count(1)

        def shared(strategy: Strategy, replicas: ReplicaSet) -> Strategy:
            if settings.peer_address is None:
                return strategy
            tell, counts = self.peers.tell, self.peer_counts
            self._shared.append(Shared(strategy, replicas, tell=tell, counts=counts, numbers=numbers))
            return self._shared[-1]

        self.strategy = shared(self.strategy, self.replicas)
        self.metrics = Metrics(self.strategy, self.replicas)
        self._discoveries = Discoveries(time.monotonic, lambda problem: log.warning("discovery: %s", problem))
        self.metrics.registry.register(self._discoveries)
        if self._shared:
            self.metrics.registry.register(self.peer_counts)
        self.metrics.registry.register(TlsCounts(self.certificates))
        self.metrics.registry.register(FailureCounts(self.background_failures))
        self._limits = OwnLimits()
        self.metrics.registry.register(self._limits)
        self._sizing: Sizing | None = None
        if settings.remembers_prompts:
            self._sizing = Sizing(self.replicas, sizes, failures=self.background_failures)
        self._models = Models(self.replicas, dict(map(parse_alias, settings.model_alias)))
        self._verifier: Verifier | None = None
        self._kv_streams = self._hear_engines(self._kvaware)
        self._model_reading = ModelReading(self.replicas, self._models, failures=self.background_failures)
        self.metrics.registry.register(ModelCounts(self._models, self._model_reading))
        self._listeners: list[Listener] = []
        self._own_listeners: list[Listener] = []  # its supervisor's, to the end
        self._covering: dict[int, Listener] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.failure: BaseException | None = None
        self.last_metrics = b""  # once it drained, before its replicas are forgotten
        self.on_failure: Callable[[], None] = lambda: None
        self._health = HealthChecks(
            self.replicas,
            interval_seconds=settings.health_interval_seconds,
            timeout_seconds=settings.health_timeout_seconds,
            failures=self.background_failures,
        )
        outliers = Outliers(
            self.replicas,
            stall_seconds=settings.stall_timeout_seconds,
            now=time.monotonic,
            groups=self._models.groups_of,
        )
        retry_budget = RetryBudget(settings.retry_budget)
        self.metrics.registry.register(ProtectionCounts(outliers, retry_budget))
        proxy = Proxy(
            settings=settings,
            picker=Picker(
                self.strategy,
                self.replicas,
                slow_start_seconds=settings.slow_start_seconds,
                models=self._models,
            ),
            replicas=self.replicas,
            counts=self.metrics.counts,
            now=time.monotonic,
            suspect=self._health.suspect,
            outliers=outliers,
            retry_budget=retry_budget,
            gathering=_gathering(settings.gather_seconds),
            limits=self._limits,
        )
        if settings.hold_seconds:
            proxy.holding = Holding(
                self.replicas, seconds=settings.hold_seconds, size=settings.hold_requests, now=time.monotonic
            )
            holding = proxy.holding
            self._models.hear(lambda replica: holding.look())
            self.metrics.registry.register(HoldCounts(proxy.holding))
        self._door = access.build(settings, self.replicas, self._models)
        if self._door is not None:
            gate = self._door.gate
            self.metrics.registry.register(AccessMetrics(gate.counts, gate.tenants))
            if gate.pools is not None:
                self.metrics.registry.register(PoolMetrics(gate.pools))
            admission = admission or gate
        if settings.guardrail is not None:
            admission = guard = Guard(settings.guardrail, admission, now=time.monotonic)
            self.metrics.registry.register(GuardCounts(guard))
        self.front = Front(
            settings, proxy, self.replicas, self.metrics, admission=admission, models=self._models
        )
        if settings.migration_limit:
            migration = Migration(
                settings.migration_limit,
                self._models.context_of,
                idle_seconds=settings.stream_idle_timeout_seconds,
                idle_where_out_seconds=settings.health_timeout_seconds,
            )
            self.front.migration = migration
            self.metrics.registry.register(MigrationCounts(migration))
        if settings.capture is not None:
            self.front.capture = Capture(settings.capture)
            self.metrics.registry.register(CaptureCounts(self.front.capture))
        if settings.otlp_endpoint is not None:
            self.front.tracing = Tracing(settings.otlp_endpoint, sample_ratio=settings.sample_ratio)
        self._prefill_side: PrefillSide | None = None
        if settings.splits_prefill:
            side = self._prefill_side = PrefillSide(
                settings, sizes, tls=self._engine_tls, failures=self.background_failures, share=shared
            )
            self.front.prefillers = side.prefillers
            side.prefillers.replicas.watch(self._replica_changed)
            side.prefillers.replicas.at_end(self._replica_ended)
            self.metrics.registry.register(PrefillCounts(side.prefillers))
        read = [(self._sizing, self.replicas)] if self._sizing is not None else []
        if self._prefill_side is not None:
            read.append((self._prefill_side.sizing, self._prefill_side.prefillers.replicas))
        if read:
            self.metrics.registry.register(SizeCounts(sizes, read))
        self._route_file: RouteFile | None = None
        if settings.routes is not None:
            canaries = self.front.asking.canaries = Canaries(use=self._use_routes, report=log.error)
            proxy.decisions.tell(canaries.hear)
            self._route_file = RouteFile(
                settings.routes,
                has_kvaware=self._kvaware is not None,
                use=canaries.follow,
                complaint=Complaint(log.error, log.info),
            )
            self.metrics.registry.register(RouteCounts(self._route_file, self.front.shadows, canaries))
        self.connections = self.front.connections
        self.budget = self.front.budget
        self._busy_polling: BusyPolling | None = None
        self.replicas.watch(self._replica_changed)
        self.replicas.at_end(self._replica_ended)

    async def start(self) -> None:
        """Find replicas, check each once, then listen. Raises ConfigError for an address that can't be."""
        settings = self.settings
        log.info("hot modules run %s", "compiled" if compiled.IN_USE else "uncompiled, about half as fast")
        if self.front.capture is not None:
            self.front.capture.start()
        if self._route_file is not None:
            self._route_file.start()
            self.keep(self._route_file.run())
        if settings.discover is not None:
            await self._follow("--discover", parse_discover(settings.discover), self.replicas, "replicas")
        else:
            self.replicas.replace(parse_replica(url) for url in settings.replicas)
        if self._prefill_side is not None:
            await self._prefill_side.start(self._follow)
        await self._health.first_round()
        await self._model_reading.first_round()
        await self._start_peers()
        if self._door is not None:
            await self._door.watch.start()
            self.keep(self._door.watch.run())
            # Until they have told one another, at the next second, workers share limits by their number.
            self._door.gate.tick(self._sockets.workers if self._sockets is not None else 1)
        admin = Admin(self.front, is_near=is_loopback)
        admin_listener = Listener(lambda: accepted(admin))
        if self._sockets is not None:
            await admin_listener.open_on([self._sockets.admin])
            self._own_listeners.append(admin_listener)
            await self._listen_for_clients(self._sockets.clients)
        else:
            clients = Listener(lambda: accepted(self.front), self._client_tls)
            await clients.open("--listen", settings.address)
            self._listeners.append(clients)
            if settings.metrics_address is not None:
                await admin_listener.open("--metrics-port", settings.metrics_address)
                self._listeners.append(admin_listener)
        self.keep(self._sweep())
        if settings.busy_polling:
            self._busy_polling = BusyPolling(self.connections)
            self._busy_polling.start()

    @property
    def port(self) -> int:
        """The port that clients connect to, known once started."""
        return self._listeners[0].port

    @property
    def metrics_port(self) -> int:
        """The port of `/metrics`, known once started."""
        return self._listeners[-1].port

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside the requests, until `stop`.

        Where it fails that is the `failure` of the router: one that no longer hears of withdrawn keys, or of
        engines that left, must not go on as if it did.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._work_ended)

    def _work_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self.failure is None:
            self.failure = error
            log.critical("the router ends: what it does beside requests failed", exc_info=error)
            self.on_failure()

    async def cover(self, slots: Mapping[int, Sequence[socket.socket]]) -> None:
        """Serve on these beside its own, and on no others any more: those of workers that are away."""
        for slot in self._covering.keys() - slots.keys():
            listener = self._covering.pop(slot)
            listener.close()
            self._listeners.remove(listener)
        for slot, sockets in slots.items():
            if slot in self._covering:
                for one in sockets:
                    one.close()
            else:
                self._covering[slot] = await self._listen_for_clients(sockets)

    async def drain(self, *, is_replaced: bool = False, hurry: asyncio.Event | None = None) -> bool:
        """Say unhealthy, stop accepting, let requests in flight finish; True when all did in time.

        Once `hurry` is set, nothing is waited for any more.

        One that `is_replaced` has handed its sockets on: who waits there is left to the other, the endpoint's
        health is none of its business, and a connection ends with its next answer, not in between.
        """
        hurry = hurry or asyncio.Event()
        self.front.draining = True
        if is_replaced:
            self.front.is_replaced = True
            self._sleep_again()
            for listener in self._listeners:
                listener.close()
            self.peers.hand_over()
            if self._client_tls is not None:  # handshakes are nobody's connections yet
                await ended(hurry.wait(), HANDSHAKE_SECONDS)
        else:
            await ended(hurry.wait(), self.settings.lameduck_seconds)
            for listener in self._listeners:
                await listener.leave()
            self.front.close_idle()
        finished = await ended(self.front.all_closed(), self.settings.drain_seconds, hurry)
        if hurry.is_set():
            log.warning("asked to stop again: %d connection(s) end at once", len(self.connections))
        self.last_metrics = self.metrics.text()
        await self.stop()
        return finished

    async def stop(self) -> None:
        """Close everything now."""
        self.front.draining = True
        self._sleep_again()
        for listener in (*self._listeners, *self._own_listeners):
            listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.front.shadows.stop()
        await self._health.stop()
        await self._model_reading.stop()
        tracing, self.front.tracing = self.front.tracing, None
        if tracing is not None:
            await asyncio.to_thread(tracing.stop)
        if self._prefill_side is not None:
            await self._prefill_side.stop()
        self.front.abort_all()
        await self.front.all_closed()
        if self.front.capture is not None:
            await self.front.capture.stop()
        await self.peers.stop()
        if self._sizing is not None:
            await self._sizing.stop()
        if self._kv_streams is not None:
            await self._kv_streams.stop()
        if self._verifier is not None:
            await self._verifier.stop()
        if self._kvaware is not None:
            await self._kvaware.stop()
        self.replicas.replace([])

    def _sleep_again(self) -> None:
        if self._busy_polling is not None:
            self._busy_polling.stop()

    async def _listen_for_clients(self, sockets: Sequence[socket.socket]) -> Listener:
        listener = Listener(lambda: accepted(self.front), self._client_tls)
        await listener.open_on(sockets)
        self._listeners.append(listener)
        return listener

    def _hear_engines(self, strategy: KvAware | None) -> KvStreams | None:
        """Follow the KV events of all replicas, where the strategy asks for them, once they are verified."""
        if strategy is None:
            return None
        verifier = self._verifier = Verifier(
            strategy, model_of=self._models.base_of, failures=self.background_failures
        )
        self._models.watch(verifier.again)
        streams = KvStreams(
            self.replicas,
            events_of=lambda replica: self.settings.kv_events_of(replica.address),
            apply=verifier.apply,
            hear=verifier.hear,
            forget=verifier.forget,
            failures=self.background_failures,
        )
        self.metrics.registry.register(KvCounts(strategy, streams, verifier, self.replicas))
        return streams

    async def _start_peers(self) -> None:
        """Hear other routers, and tell them, where the settings name any."""
        settings = self.settings
        if settings.peer_address is None:
            return
        sockets, sharing = self._sockets, self._shared
        await self.peers.start(
            settings.peer_address,
            sharing[0] if len(sharing) == 1 else Sides(*sharing),
            sockets.peers if sockets is not None else None,
        )
        self.peers.ports = sockets.workers if sockets is not None else 1
        if settings.peers is None:
            self.peers.replace(map(parse_peer, settings.peer))
            return
        await self._follow("--peers", parse_peers(settings.peers), self.peers, "peers")

    def _use_routes(self, routes: Routes) -> None:
        """From the first that say anything on, all strategies hear of all requests."""
        if self._switching is not None and routes != Routes():
            self._switching.wake()
        self._models.split = routes.split_names
        self.front.asking.use(routes)

    async def _follow(self, setting: str, source: Address | Service, listed: Listed, whose: str) -> None:
        """Keep `listed` in step with its source from now on. Raises ConfigError where that can't be asked."""
        discovery = discover(
            setting,
            source,
            listed,
            self._discoveries.of(whose),
            interval_seconds=self.settings.discover_interval_seconds,
        )
        await discovery.step()
        self.keep(discovery.run())

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.front.sweep()
            self._limits.sweep()
            if self.front.capture is not None:
                self.front.capture.sweep()
            for certificate in self.certificates:
                certificate.refresh()
            if self._door is not None:
                # Not those that are told: one that is frozen goes on taking what it is told.
                self._door.gate.tick(self.peer_counts.num_heard + 1)

    def _replica_changed(self, replica: Replica, reason: str) -> None:
        log.info("replica %s is %s: %s", replica.url, replica.state.value, reason)
        if replica.state is State.EJECTED:
            self.metrics.counts.ejected(replica.url, reason)

    def _replica_ended(self, replica: Replica) -> None:
        self.metrics.counts.forget(replica.url)


def _gathering(seconds: float) -> Gathering | None:
    def call_later(seconds: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, call)

    return Gathering(seconds, time.monotonic, call_later, waker()) if seconds else None
