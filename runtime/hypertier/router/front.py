"""What becomes of a client's request: answered here, refused, or sent to a replica."""

from __future__ import annotations

import logging
import operator
import secrets
from asyncio import Event
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import cast

from hypertier.router.admission import Admission, Admitted, Arrival, Grant
from hypertier.router.api.openai import InferenceRequest, Refusal
from hypertier.router.api.responses import PATH as RESPONSES_PATH
from hypertier.router.api.responses import ResponseHolders, ResponsesExchange
from hypertier.router.asking import Asking
from hypertier.router.bounds import MAX_SECONDS
from hypertier.router.capture.capture import Capture
from hypertier.router.exchange import Exchange
from hypertier.router.http.connection import ClientConnection, Pending
from hypertier.router.http.heads import Request
from hypertier.router.http.sides import Client
from hypertier.router.http.tunnel import Tunnel
from hypertier.router.http.wire import BodyBudget
from hypertier.router.migration import migratable
from hypertier.router.migration.continuation import PATHS as STREAM_PATHS
from hypertier.router.migration.migration import Migration
from hypertier.router.own_answers import LOCAL_METHODS, OwnAnswers
from hypertier.router.prefill.prefill import Leg, Prefillers
from hypertier.router.proxy import Proxy
from hypertier.router.replicas.models import (
    LIST_PATH,
    Models,
    model_in_path,
)
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.routes.shadow import ShadowClient, Shadows
from hypertier.router.settings import RouterSettings
from hypertier.router.telemetry.decisions import Prefilled
from hypertier.router.telemetry.metrics import Metrics
from hypertier.router.telemetry.tracing import Tracing

log = logging.getLogger("hypertier.router")

# Clients that use a connection all the time send on it within that; a close could cross with what they send.
REPLACED_IDLE_TICKS = 5
_NO_FILES = Refusal(503, "the router has no room for another connection", "overloaded", retry_after_seconds=1)


class Front:
    """Owner of the client connections, see `connection.Owner`: `handle` is the way of every request.

    `answers` has what the router says itself.
    """

    def __init__(
        self,
        settings: RouterSettings,
        proxy: Proxy,
        replicas: ReplicaSet,
        metrics: Metrics,
        *,
        admission: Admission | None = None,
        models: Models | None = None,
    ) -> None:
        self.settings = settings
        self.tick = 0
        self.draining = False
        self.is_replaced = False
        self.max_head_bytes = settings.max_head_bytes
        self.max_body_bytes = settings.max_body_bytes
        self.budget = BodyBudget(settings.max_buffered_bytes)
        self.connections: set[ClientConnection] = set()
        self._proxy = proxy
        self._admission = admission
        self._models = models or Models(replicas)
        self.asking = Asking(settings, self._models)
        salt_as = getattr(admission, "salt_as", None)
        self.answers = OwnAnswers(settings, proxy, self._models, self.asking, metrics, salt_as=salt_as)
        self.shadows = Shadows()
        self._holders = ResponseHolders()
        self.prefillers: Prefillers | None = None
        self.migration: Migration | None = None
        self.tracing: Tracing | None = None
        self.capture: Capture | None = None
        self.check_head: Callable[[Request], Refusal | None] | None = getattr(admission, "check_head", None)
        self._request_ids = request_ids()
        self._all_closed = Event()

    @property
    def idle_ticks(self) -> int:
        """While it drains: clients of one that is replaced have to notice nothing of it."""
        return REPLACED_IDLE_TICKS if self.is_replaced else -1

    def opened(self, connection: ClientConnection) -> None:
        """A client connected: it is served, where files are left for it."""
        self.follow(connection)
        limits, number = self._proxy.limits, connection.file_number
        if not limits.takes(number):
            if limits.tells(number):
                connection.turn_away(_NO_FILES)
            else:
                connection.abort()

    def follow(self, connection: ClientConnection) -> None:
        """From now on it is one of ours, to sweep and to close."""
        self.connections.add(connection)

    def closed(self, connection: ClientConnection) -> None:
        """A client is gone."""
        self.connections.discard(connection)
        if not self.connections:
            self._all_closed.set()

    async def all_closed(self) -> None:
        """Return when no client is connected."""
        while self.connections:
            self._all_closed.clear()
            await self._all_closed.wait()

    def refused(self, refusal: Refusal) -> None:
        """Count what a connection refused itself."""
        self.answers.refused(refusal)

    def handle(self, connection: ClientConnection, request: Request) -> None:
        """Answer `/health`; all else is for who is let in."""
        request_id = request.request_id or next(self._request_ids)
        connection.named(request_id)
        if request.path == b"/health":
            self.answers.health(connection, request, draining=self.draining and not self.is_replaced)
        elif deadline_of(request) == INVALID:
            refusal = Refusal(
                400,
                f"x-request-timeout takes seconds, more than 0 and at most {MAX_SECONDS}",
                "invalid_request_timeout",
                param="x-request-timeout",
            )
            self.answers.refuse(connection, refusal)
        elif self._admission is None:
            self._try_to_send(connection, request, request_id, None)
        else:
            arrival = Arrival(self, connection, request, request_id)
            connection.exchange = arrival
            self._admission.admit(arrival)

    # Where an arrival goes on, see `admission.Gate`.

    def proceed(self, arrival: Arrival, grant: Grant | None) -> None:
        """It was let through."""
        connection = cast(ClientConnection, arrival.client)
        self._try_to_send(connection, arrival.request, arrival.request_id, grant)

    def refuse(self, arrival: Arrival, refusal: Refusal) -> None:
        """It was not."""
        self.answers.refuse(cast(ClientConnection, arrival.client), refusal)

    def sweep(self) -> None:
        """Once a second: end what has taken too long."""
        settings = self.settings
        self.tick += 1
        pending = [connection.exchange for connection in self.connections]
        heard = {exchange.answering_replica for exchange in pending if isinstance(exchange, Exchange)}
        self._proxy.outliers.sweep({replica for replica in heard if replica is not None})
        self._proxy.retry_budget.tick()
        if self.prefillers is not None:
            self.prefillers.sweep()
        self.shadows.sweep(self.tick, settings.response_timeout_seconds)
        if self.migration is not None:
            migratable.sweep(self.migration, self.tick, pending)
        for connection in list(self.connections):
            connection.sweep(
                read_timeout=settings.read_timeout_seconds,
                idle_timeout=settings.idle_timeout_seconds,
                response_timeout=settings.response_timeout_seconds,
            )

    def close_idle(self) -> None:
        """Close the connections without a request; new ones are left to `sweep`, for their first."""
        for connection in list(self.connections):
            if connection.idle and not connection.is_new:
                connection.close()

    def abort_all(self) -> None:
        """Close all connections at once; requests in hand are cancelled."""
        for connection in list(self.connections):
            connection.abort()

    def _try_to_send(
        self, connection: ClientConnection, request: Request, request_id: bytes, grant: Grant | None
    ) -> None:
        """A fault of ours on the way costs this request alone, and none of its grant."""
        waiting = connection.exchange
        try:
            self._send(connection, request, request_id, grant)
        except Exception:
            self._fault(connection, waiting, grant)

    def _fault(self, connection: ClientConnection, waiting: Pending | None, grant: Grant | None) -> None:
        """Answer a request that could not be sent, and end what came of it in place of what was `waiting`."""
        log.exception("a request could not be sent")
        pending, connection.exchange = connection.exchange, None
        if pending is not waiting and pending is not None:
            pending.cancel()
        elif pending is waiting and grant is not None:
            grant.end()
        self.answers.refuse(connection, Refusal(500, "a fault of the router's own", "internal_error"))

    def _send(
        self, connection: ClientConnection, request: Request, request_id: bytes, grant: Grant | None
    ) -> None:
        if request.path == b"/metrics":
            _let_go(connection, grant)
            self.answers.metrics_or_where(connection, request)
            return
        if self._answer_of_model(connection, request, grant):
            return
        asking, seed = self.asking, grant.seed if grant is not None else b""
        inference = asking.read(request, seed)
        if grant is not None and grant.session is not None:
            inference = inference.replace(session=grant.session)
        renamed = asking.shadow(inference, request_id)
        if renamed is not None:
            self._cast_shadow(request, renamed, request_id, seed)
        inference = asking.routed(request, inference, request_id, seed)
        if self._answer_of_models(connection, request, inference, grant):
            return
        admitted = Admitted(request, inference, request_id, grant)
        if self.prefillers is not None and self.prefillers.want(request, inference):
            self._prefill(self.prefillers, connection, admitted)
        else:
            self._exchange(connection, admitted, grant.waited_seconds if grant is not None else 0.0)

    def _prefill(self, prefillers: Prefillers, connection: ClientConnection, admitted: Admitted) -> None:
        """Let another replica compute the prompt, then go on with who decodes, whatever came of it."""

        request, grant = admitted.request, admitted.grant
        waited = grant.waited_seconds if grant is not None else 0.0
        begun_at, seconds = self._proxy.now(), prefillers.timeout_seconds
        deadline = deadline_of(request)
        if deadline:
            seconds = min(seconds, max(0.0, deadline - waited))

        def go_on() -> None:
            passed = self._proxy.now() - begun_at
            try:
                self._exchange(connection, admitted, waited + passed, leg.prefilled)
            except Exception:
                self._fault(connection, leg, grant)

        leg = Leg(prefillers, admitted, seconds, go_on)
        connection.exchange = leg
        leg.start()

    def _exchange(
        self,
        connection: ClientConnection,
        admitted: Admitted,
        waited_seconds: float,
        prefilled: Prefilled | None = None,
    ) -> None:
        request, inference = admitted.request, admitted.inference
        trace = self.tracing.begin(request, inference.model) if self.tracing is not None else None
        exchange: Exchange
        client: Client = connection
        if self.capture is not None and not request.upgrades:
            client = self.capture.client(connection, request, admitted.request_id, admitted.grant)
        if request.upgrades:
            exchange = Tunnel(self._proxy, connection, admitted)
        elif request.path.startswith(RESPONSES_PATH):
            exchange = ResponsesExchange(self._proxy, client, admitted, self._holders)
        elif self.migration is not None and inference.streamed and request.path in STREAM_PATHS:
            exchange = migratable.exchange(self.migration, self._proxy, client, admitted)
        else:
            exchange = Exchange(self._proxy, client, admitted)
        exchange.trace = trace
        exchange.prefilled = prefilled
        connection.exchange = exchange
        self._proxy.retry_budget.request()
        if request.field(TIMEOUT_HEADER) is not None:
            exchange.end_by(deadline_of(request), waited_seconds)
        exchange.start()

    def _cast_shadow(
        self, request: Request, renamed: Mapping[bytes, bytes], request_id: bytes, seed: bytes
    ) -> None:
        """Send a copy for another model, whose answer nobody waits for."""
        if request.upgrades or not self.shadows.admits(len(request.body)):
            return
        copied, inference = self.asking.copied(request, renamed, seed)
        client = ShadowClient(self.shadows)
        admitted = Admitted(copied, inference, request_id + b"-shadow")
        exchange = Exchange(self._proxy.for_copies(), client, admitted)
        client.exchange = exchange
        exchange.start()

    def _answer_of_model(self, connection: ClientConnection, request: Request, grant: Grant | None) -> bool:
        """Answer `/v1/models/NAME`, as OpenAI does and no engine, where a replica has the model."""
        name = model_in_path(request.path)
        told = self._models.answer_of(name) if name is not None else None
        if told is None:
            return False
        _let_go(connection, grant)
        self.answers.answer(connection, request, 200, told)
        return True

    def _answer_of_models(
        self, connection: ClientConnection, request: Request, inference: InferenceRequest, grant: Grant | None
    ) -> bool:
        """Answer what no single replica can: the list of models, and a model that none serves."""
        refusal = None
        lists = request.path == LIST_PATH and request.method in LOCAL_METHODS and self._models.speaks_for_all
        if not lists:
            refusal = self.answers.refusal_of_model(request, inference)
            if refusal is None:
                return False
        _let_go(connection, grant)
        if refusal is None:
            self.answers.answer(connection, request, 200, self._models.answer())
            return True
        if self.asking.canaries is not None and inference.model is not None:
            self.asking.canaries.ended(inference.model, "5xx")  # of a split, perhaps: nobody serves it
        self.answers.refuse(connection, refusal)
        return True


def _let_go(connection: ClientConnection, grant: Grant | None) -> None:
    """No replica is asked: what was let through is answered here."""
    connection.exchange = None
    if grant is not None:
        grant.end()


TIMEOUT_HEADER = b"x-request-timeout"
INVALID = -1.0


def deadline_of(request: Request) -> float:
    """Seconds that the client gives its request; 0.0 where it says nothing, `INVALID` for nonsense."""
    text = request.field(TIMEOUT_HEADER)
    if text is None:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        return INVALID
    return seconds if 0 < seconds <= MAX_SECONDS else INVALID


def request_ids() -> Iterator[bytes]:
    """Names for requests that came without: unlike those of any other router or start of this one."""
    run = secrets.token_hex(8)
    return map(partial(operator.mod, b"%s-%%x" % run.encode()), count(1))
