"""The one port beside the clients', where all workers are asked together."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hypertier.errors import HttpError
from hypertier.router.admin import is_loopback
from hypertier.router.api import openai
from hypertier.router.api.openai import Refusal
from hypertier.router.http.connection import ClientConnection, accepted
from hypertier.router.http.heads import Request
from hypertier.router.http.listening import Listener
from hypertier.router.http.wire import BodyBudget
from hypertier.router.own_answers import MAX_TOLD
from hypertier.router.telemetry.metrics import CONTENT_TYPE
from hypertier.router.workers import merging
from hypertier.router.workers.merging import Stage

if TYPE_CHECKING:
    from hypertier.router.workers.process import Worker
    from hypertier.router.workers.supervisor import Supervisor

log = logging.getLogger("hypertier.router")

TIMEOUT_SECONDS = 30.0
MAX_BODIES_BYTES = 256 * 2**20


class WorkersAdmin(Collector):
    """Owner of the connections to the metrics port, see `connection.Owner`.

    `/metrics` adds up the workers' own pages, and what workers that are no more had counted. `/decisions` has
    those of all; `/explain` asks one, since all know the same.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        settings = supervisor.settings
        self.tick = 0
        self.draining = False
        self.idle_ticks = -1
        self.max_head_bytes = settings.max_head_bytes
        self.max_body_bytes = settings.max_body_bytes
        self.budget = BodyBudget(max(MAX_BODIES_BYTES, settings.max_body_bytes))
        self.check_head: Callable[[Request], Refusal | None] | None = None
        self.num_unread = 0
        self._supervisor = supervisor
        self._ended = merging.Page()
        self._listener = Listener(lambda: accepted(self))
        self._connections: set[ClientConnection] = set()
        self._answering: dict[ClientConnection, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Listen. Raises ConfigError for a port that is taken."""
        address = self._supervisor.settings.metrics_address
        assert address is not None
        await self._listener.open("--metrics-port", address)

    @property
    def port(self) -> int:
        """The port, known once started."""
        return self._listener.port

    async def stop(self) -> None:
        """Close everything."""
        self._listener.close()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*self._answering.values(), return_exceptions=True)

    def sweep(self) -> None:
        """Once a second: end what has taken too long."""
        for connection in list(self._connections):
            connection.sweep(
                read_timeout=TIMEOUT_SECONDS, idle_timeout=TIMEOUT_SECONDS, response_timeout=TIMEOUT_SECONDS
            )

    def retain(self, worker: Worker) -> None:
        """This one is no more: what it counted stays in the sums."""
        self._ended.add(worker.page, of=Stage.ENDED)

    # What follows is called by connections.

    def opened(self, connection: ClientConnection) -> None:
        """Somebody connected."""
        self._connections.add(connection)

    def closed(self, connection: ClientConnection) -> None:
        """Somebody is gone."""
        self._connections.discard(connection)
        answering = self._answering.pop(connection, None)
        if answering is not None:
            answering.cancel()

    def refused(self, refusal: Refusal) -> None:
        """Nobody counts these."""

    def handle(self, connection: ClientConnection, request: Request) -> None:
        """Answer as one router would, see `admin.Admin`."""
        query = request.target.partition(b"?")[2].decode("latin-1")
        answer: Callable[[], Awaitable[tuple[int, bytes, bytes]]]
        if request.path == b"/metrics":
            answer = self._metrics
        elif request.path in (b"/health", b"/healthz"):
            answer = self._health
        elif request.path in (b"/decisions", b"/explain") and not is_loopback(connection.peer):
            path = request.path.decode()
            problem = f"{path} answers its own machine alone: kubectl port-forward POD PORT leads there"
            connection.refuse(Refusal(403, problem, "not_local"))
            return
        elif request.path == b"/decisions":
            answer = lambda: self._decisions(query)  # noqa: E731
        elif request.path == b"/explain" and request.method == b"POST":
            body = bytes(request.body)
            answer = lambda: self._explain(query, body)  # noqa: E731
        else:
            problem = "this port serves /metrics, /healthz, /decisions and POST /explain"
            connection.refuse(Refusal(404, problem, "not_found"))
            return
        self._answering[connection] = asyncio.get_running_loop().create_task(self._answer(connection, answer))

    async def _answer(
        self, connection: ClientConnection, answer: Callable[[], Awaitable[tuple[int, bytes, bytes]]]
    ) -> None:
        try:
            status, content_type, body = await answer()
            connection.write(
                openai.response(status, body, content_type=content_type, keep_alive=not connection.closes)
            )
        except HttpError as error:
            connection.refuse(Refusal(503, str(error), "no_worker", retry_after_seconds=1))
            return
        except Exception:
            log.exception("what workers said could not be put together")
            connection.refuse(Refusal(500, "a fault of the router's own", "internal_error"))
            return
        finally:
            self._answering.pop(connection, None)
        connection.finish(keep_alive=True)

    async def _metrics(self) -> tuple[int, bytes, bytes]:
        asked = [worker for worker in self._supervisor.workers if worker.ready.done()]
        read = await asyncio.gather(*(worker.read_page() for worker in asked))
        self.num_unread += read.count(False)
        live = merging.Page()
        for worker in self._supervisor.workers:  # one that ended meanwhile is among the ended
            live.add(worker.page, of=Stage.LEAVING if worker.is_leaving else Stage.SERVING)
        self._ended.forget_replicas_but(live)
        live.add_page(self._ended)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(live)
        registry.register(self)
        return 200, CONTENT_TYPE, generate_latest(registry)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """What the supervisor itself counts; called by the registry."""
        yield GaugeMetricFamily(
            "hypertier_router_workers", "Worker processes that serve.", value=self._num_serving
        )
        for name, about, label, counts in (
            ("restarts", "Workers that ended unasked.", "cause", self._supervisor.restarts),
            ("reloads", "Replacements of all workers, by result.", "result", self._supervisor.reloads),
        ):
            family = CounterMetricFamily(f"hypertier_router_worker_{name}", about, labels=[label])
            for value, number in counts.items():
                family.add_metric([value], number)
            yield family
        yield CounterMetricFamily(
            "hypertier_router_worker_pages_missed",
            "Times that a worker's metrics could not be read, and its last ones stood in.",
            value=self.num_unread,
        )

    @property
    def _num_serving(self) -> int:
        return sum(worker is not None and worker.serves for worker in self._supervisor.current)

    async def _health(self) -> tuple[int, bytes, bytes]:
        supervisor = self._supervisor
        told = {
            "serving": self._num_serving,
            "draining": supervisor.stopping,
            "workers": [
                {"worker": one.slot, "pid": one.pid, "serves": one.serves} for one in supervisor.workers
            ],
        }
        status = 200 if self._num_serving and not supervisor.stopping else 503
        return status, b"application/json", json.dumps(told).encode()

    async def _decisions(self, query: str) -> tuple[int, bytes, bytes]:
        workers = self._supervisor.workers
        target = f"/decisions?{quote(query, safe='=&%+')}"
        answers = await asyncio.gather(*(one.ask("GET", target) for one in workers), return_exceptions=True)
        told = [
            (worker.slot, json.loads(answer[1])["decisions"])
            for worker, answer in zip(workers, answers, strict=True)
            if not isinstance(answer, BaseException) and answer[0] == 200
        ]
        every = merging.decisions(told, MAX_TOLD)
        return 200, b"application/json", json.dumps({"decisions": every}).encode()

    async def _explain(self, query: str, body: bytes) -> tuple[int, bytes, bytes]:
        serving = [one for one in self._supervisor.current if one is not None and one.serves]
        if not serving:
            raise HttpError("no worker serves now")
        status, told = await serving[0].ask("POST", f"/explain?{quote(query, safe='=&%+/')}", body)
        return status, b"application/json", told
