"""Carrying one request to a replica and its answer back, byte for byte.

`Upstream` is one connection to a replica; `Exchange` is one request on its way, with the rule of the
house: what has not begun to answer may be tried elsewhere, what has begun never is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import httptools

from hypertier.router.admission import Grant
from hypertier.router.metrics import Metrics
from hypertier.router.openai import InferenceRequest, Refusal
from hypertier.router.outliers import Outliers, RetryBudget
from hypertier.router.picking import Picker
from hypertier.router.replicas import Replica, ReplicaSet
from hypertier.router.settings import RouterSettings
from hypertier.router.strategies.by_score import Choice
from hypertier.router.wire import Request, ResponseHead, request_head, response_head

RETRIED_STATUSES = frozenset({502, 503, 504})
MAX_RESPONSE_HEAD_BYTES = 256 * 1024
MAX_IDLE_PER_REPLICA = 256
# Below this a head and a body are one write; above, joining would copy more than a second buffer costs.
_JOIN_BYTES = 64 * 1024
# Of an answer's end, kept for who asks what it took: `usage` stands there.
_END_BYTES = 4096


class Client(Protocol):
    """Where an answer goes."""

    def write(self, data: bytes) -> None:
        """Send on; the exchange was asked to `pause` before this buffers without bound."""
        ...

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is complete."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """No byte was answered: answer with this."""
        ...

    def truncate(self) -> None:
        """The answer broke off: close so that the client can tell."""
        ...

    @property
    def closes(self) -> bool:
        """The connection ends with this answer, which says so."""
        ...


@dataclass(slots=True)
class Proxy:
    """What every exchange shares. `now` is a clock in seconds; `suspect` asks for a health check now."""

    settings: RouterSettings
    picker: Picker
    replicas: ReplicaSet
    metrics: Metrics
    now: Callable[[], float]
    suspect: Callable[[Replica], None]
    outliers: Outliers
    retry_budget: RetryBudget


class Upstream(asyncio.Protocol):
    """One connection to a replica: carries one exchange at a time, waits in the replica's pool in between."""

    def __init__(self, proxy: Proxy, replica: Replica) -> None:
        self._proxy = proxy
        self._replica = replica
        self._exchange: Exchange | None = None
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._head = b""
        self._head_done = False
        self._held: ResponseHead | None = None  # read, and not sent on before the body begins
        self._complete = False
        self._num_messages = 0
        self._ends_with_connection = False
        self._is_head = False
        self._keeps_alive = False

    @property
    def usable(self) -> bool:
        """It is open and waits for a request."""
        return self._transport is not None and not self._transport.is_closing() and self._exchange is None

    def send(self, exchange: Exchange, head: bytes, body: bytes | bytearray) -> None:
        """Carry this request; its answer goes to `exchange`."""
        transport = cast(asyncio.Transport, self._transport)
        self._exchange = exchange
        self._head, self._head_done, self._complete, self._num_messages = b"", False, False, 0
        self._held = None
        self._ends_with_connection = False
        self._is_head = exchange.request.method == b"HEAD"
        if not body:
            transport.write(head)
        elif len(body) <= _JOIN_BYTES:
            transport.write(head + body)
        else:
            transport.writelines((head, body))

    def pause(self) -> None:
        """Read no further: the client does not keep up."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close at once, without a word to the exchange."""
        self._exchange = None
        if self._transport is not None:
            self._transport.abort()

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:  # an engine that speaks unasked has lost count, and so would the next request
            self.close()
            return
        head, self._held = self._held, None
        if head is None and not self._head_done:
            found = self._read_heads(exchange, data)
            if found is None:
                return
            head, data = found
        if data and not self._is_body(data):
            self._fail(exchange)
            return
        if head is not None and not (data or self._complete or self._is_head):
            # vLLM sends a stream's head at once and may compute for minutes before it has more to say.
            self._held = head
            return
        if head is not None:
            self._head, self._head_done = b"", True
            self._ends_with_connection = head.ends_with_connection
            exchange.begin(head, data)
        else:
            exchange.relay(data)
        if self._complete or self._is_head:
            self._finish(exchange)

    def connection_lost(self, exc: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            if self in self._replica.idle:
                self._replica.idle.remove(self)
        elif self._held is not None and self._held.ends_with_connection and exc is None:
            exchange.begin(self._held, b"")
            exchange.complete(keep_alive=False)
        elif not self._head_done:
            exchange.failed("reset", answering=self._held is not None)
        elif self._ends_with_connection and exc is None:
            exchange.complete(keep_alive=False)
        else:
            exchange.broken()

    # What follows is called by httptools.

    def on_message_begin(self) -> None:
        self._num_messages += 1

    def on_message_complete(self) -> None:
        self._complete = True
        self._keeps_alive = self._parser.should_keep_alive()  # known here alone: afterwards llhttp forgets

    def _is_body(self, data: bytes) -> bool:
        """It continues the answer's body, and nothing follows that."""
        if self._is_head:
            return False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            return False
        return self._num_messages == 1

    def _read_heads(self, exchange: Exchange, data: bytes) -> tuple[ResponseHead, bytes] | None:
        """Read up to the final head; that and what follows it, or None when there is none yet."""
        buffered = self._head + data if self._head else data
        while True:
            end = buffered.find(b"\r\n\r\n") + 4
            if end < 4:
                self._head = buffered
                if len(buffered) > MAX_RESPONSE_HEAD_BYTES:
                    self._fail(exchange)
                return None
            raw, buffered = buffered[:end], buffered[end:]
            try:
                self._parser.feed_data(raw)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade):
                self._fail(exchange)
                return None
            status = self._parser.get_status_code()
            if status >= 200:
                break
            self._complete, self._num_messages = False, 0  # 100 and 103 are for this hop alone
        if status in RETRIED_STATUSES and exchange.may_retry():
            self.close()
            exchange.failed(str(status))
            return None
        return response_head(raw, status=status, is_head=self._is_head), buffered

    def _finish(self, exchange: Exchange) -> None:
        self._exchange = None
        transport = cast(asyncio.Transport, self._transport)
        reusable = (
            not self._is_head
            and not exchange.request.is_http_1_0
            and self._keeps_alive
            and self._replica.usable_pool(MAX_IDLE_PER_REPLICA)
            and not transport.is_closing()
        )
        if reusable:
            transport.resume_reading()
            self._replica.idle.append(self)
        else:
            transport.abort()
        exchange.complete(keep_alive=True)

    def _fail(self, exchange: Exchange) -> None:
        """The engine's answer is not HTTP, or more than one: nothing of it can be trusted."""
        begun = self._head_done
        self.close()
        if begun:
            exchange.broken()
        else:
            exchange.failed("malformed")


class Exchange:
    """One request on its way, from the pick to the last byte of the answer.

    Before the answer's first byte a failure is retried on a replica not yet tried: always where no
    connection came about, at most `settings.retries` times where the replica took the request and failed.
    After it, never.
    """

    __slots__ = (
        "_attempts_left",
        "_begun_at",
        "_connecting",
        "_deadline",
        "_end_of_answer",
        "_grant",
        "_pending_bytes",
        "_proxy",
        "_replica",
        "_reused",
        "_started",
        "_status",
        "_tried",
        "_upstream",
        "client",
        "ends_with_connection",
        "inference",
        "last_tick",
        "pick",
        "request",
        "request_id",
    )

    def __init__(
        self,
        proxy: Proxy,
        client: Client,
        request: Request,
        inference: InferenceRequest,
        request_id: bytes,
        grant: Grant | None = None,
    ) -> None:
        self.client = client
        self.request = request
        self.inference = inference
        self.request_id = request_id
        self.pick: Choice | None = None
        self.last_tick = -1
        self.ends_with_connection = False
        self._grant = grant
        self._end_of_answer = b"" if grant is not None and grant.answered is not None else None
        self._proxy = proxy
        self._replica: Replica | None = None
        self._upstream: Upstream | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._tried: set[Replica] = set()
        self._attempts_left = proxy.settings.retries
        self._started = False
        self._reused = False
        self._status = 0
        self._pending_bytes = 0
        self._begun_at = proxy.now()
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def streamed(self) -> bool:
        """The answer comes token by token."""
        return self.inference.streamed

    @property
    def answering_replica(self) -> Replica | None:
        """The one whose answer grew since the last tick, if any."""
        return self._replica if self._started and self.last_tick < 0 else None

    def end_by(self, seconds: float) -> None:
        """Give up, answered or not, `seconds` from now; the engine's connection is closed."""
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._expire, seconds)

    def start(self) -> None:
        """Pick and send. Everything that comes of it reaches the client."""
        pick = self._proxy.picker.pick(self, self.inference, self._proxy.now(), self._tried)
        if pick is None:
            self._give_up()
            return
        self.pick = pick
        self._proxy.metrics.picked(pick.reason, self.inference.num_bytes, pick.matched_bytes)
        self._pending_bytes = max(0, self.inference.num_bytes - pick.matched_bytes)
        self._replica = pick.replica
        self._proxy.replicas.start(pick.replica, self._pending_bytes)
        pick.replica.waiting.add(self)
        self._send(reuse=True)

    def _expire(self, seconds: float) -> None:
        self._deadline = None
        self._close_upstream()
        if self._started:
            self._release("broken")
            self._ended()
            self.client.truncate()
        else:
            self._release("5xx")
            self._ended()
            problem = f"not answered within the {seconds:g} s of x-request-timeout"
            self.client.refuse(Refusal(504, problem, "deadline_exceeded", param="x-request-timeout"))

    def cancel(self) -> None:
        """The client is gone: so is the request, and the engine sees its connection close."""
        self._close_upstream()
        self._release("client_closed")
        self._ended()

    def time_out(self) -> None:
        """The engine was silent for too long."""
        self._close_upstream()
        if self._started:
            self.broken()
        else:
            if self._replica is not None:
                self._proxy.outliers.failed(self._replica)
            self._release("5xx")
            self._ended()
            seconds = self._proxy.settings.response_timeout_seconds
            self.client.refuse(
                Refusal(504, f"the engine did not answer within {seconds:g} s", "engine_timeout")
            )

    def pause(self) -> None:
        """The client reads slower than the engine writes."""
        if self._upstream is not None:
            self._upstream.pause()

    def resume(self) -> None:
        """The client caught up."""
        if self._upstream is not None:
            self._upstream.resume()

    def leave(self) -> None:
        """The replica is silent, health checks and all: try another, if there is one."""
        if self.may_retry():
            self._close_upstream()
            self.failed("silent")

    def may_retry(self) -> bool:
        """A failure now could be tried on another replica."""
        replica = cast(Replica, self._replica)
        return self._attempts_left > 0 and bool(self._proxy.picker.candidates({*self._tried, replica}))

    # What follows is called by the upstream connection.

    def begin(self, head: ResponseHead, data: bytes) -> None:
        """The head of the answer and what came with it: from here on there is no other replica."""
        self._started = True
        self._status = head.status
        self.last_tick = -1
        self.ends_with_connection = head.ends_with_connection
        now = self._proxy.now()
        if head.is_stream:
            self._proxy.picker.strategy.first_token(self, now)
        self._proxy.metrics.first_byte(now - self._begun_at)
        self._computed()
        lines = [head.raw]
        if not head.has_request_id:
            lines += (b"x-request-id: ", self.request_id, b"\r\n")
        if self._proxy.settings.explain and self.pick is not None:
            lines.append(_explanation(self.pick))
        if self._grant is not None:
            lines.append(self._grant.headers)
        if self.client.closes or head.ends_with_connection:
            lines.append(b"connection: close\r\n")
        lines += (b"\r\n", data)
        self.client.write(b"".join(lines))
        if self._end_of_answer is not None:
            self._end_of_answer = data[-_END_BYTES:]

    def relay(self, data: bytes) -> None:
        """Bytes of the answer's body, framing included, as the engine sent them."""
        self.last_tick = -1
        self.client.write(data)
        if self._end_of_answer is not None:
            self._end_of_answer = (self._end_of_answer + data)[-_END_BYTES:]

    def complete(self, *, keep_alive: bool) -> None:
        """The answer's last byte was relayed."""
        self._upstream = None
        if self._replica is not None:
            if self._status < 500:
                self._proxy.outliers.succeeded(self._replica)
            else:
                self._proxy.outliers.failed(self._replica, self._status)
        self._release(f"{self._status // 100}xx")
        if self._end_of_answer and self._grant is not None and self._grant.answered is not None:
            self._grant.answered(self._end_of_answer)
        self._ended()
        self.client.finish(keep_alive=keep_alive)

    def broken(self) -> None:
        """The answer broke off after it had begun."""
        replica = self._replica
        self._upstream = None
        self._release("broken")
        self._ended()
        if replica is not None:
            self._proxy.outliers.failed(replica)
            self._proxy.suspect(replica)
        self.client.truncate()

    def failed(self, cause: str, *, answering: bool = False) -> None:
        """The replica failed before the first byte of its answer's body; `answering` when after its head."""
        self._upstream = None
        replica = cast(Replica, self._replica)
        # Where the engine closed an idle connection as we took it, it did nothing.
        if cause == "reset" and self._reused and not answering:
            self._proxy.metrics.retried("stale")
            self._send(reuse=False)
            return
        if cause == "connect":
            self._proxy.replicas.eject(replica, cause)
        else:
            self._attempts_left -= 1
            self._proxy.outliers.failed(replica, int(cause) if cause.isdigit() else 0)
            self._proxy.suspect(replica)
        self._release(None)
        self._tried.add(replica)
        spent = self._attempts_left < 0 or not self._proxy.picker.candidates(self._tried)
        # Where no connection came about nothing was sent, and the replica is out: that costs no budget.
        if spent or (cause != "connect" and not self._proxy.retry_budget.take()):
            self._give_up()
            return
        self._proxy.metrics.retried(cause)
        self.start()

    def _send(self, *, reuse: bool) -> None:
        replica = cast(Replica, self._replica)
        while reuse and replica.idle:
            upstream = cast(Upstream, replica.idle.pop())
            if upstream.usable:
                self._reused = True
                self._send_on(upstream)
                return
        self._reused = False
        self._connecting = asyncio.get_running_loop().create_task(self._connect(replica))

    def _send_on(self, upstream: Upstream) -> None:
        self._upstream = upstream
        upstream.send(self, request_head(self.request, self.request_id), self.request.body)

    async def _connect(self, replica: Replica) -> None:
        upstream = Upstream(self._proxy, replica)
        host, port = replica.address.host, replica.address.port
        try:
            async with asyncio.timeout(self._proxy.settings.connect_timeout_seconds):
                await asyncio.get_running_loop().create_connection(lambda: upstream, host, port)
        except asyncio.CancelledError:
            upstream.close()
            raise
        except (OSError, TimeoutError):
            upstream.close()
            self._connecting = None
            self.failed("connect")
            return
        self._connecting = None
        self._send_on(upstream)

    def _give_up(self) -> None:
        if self._tried:
            refusal = Refusal(
                502,
                f"{len(self._tried)} replica(s) failed before answering",
                "bad_gateway",
                retry_after_seconds=1,
            )
        else:
            refusal = Refusal(503, "no healthy replica", "no_replica", retry_after_seconds=1)
        self._proxy.metrics.answered("", "5xx")
        self._ended()
        self.client.refuse(refusal)

    def _close_upstream(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.close()
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()

    def _computed(self) -> None:
        """The replica has the prompt behind it."""
        if self._replica is not None:
            self._replica.waiting.discard(self)
            self._replica.pending_bytes -= self._pending_bytes
        self._pending_bytes = 0

    def _release(self, status: str | None) -> None:
        """Give back what the exchange holds of its replica, once; count it under `status`."""
        replica = self._replica
        if replica is None:
            return
        self._computed()
        self._replica = None
        self._proxy.replicas.finish(replica)
        self._proxy.picker.strategy.finished(self, self._proxy.now())
        if status is not None:
            self._proxy.metrics.answered(replica.url, status)

    def _ended(self) -> None:
        """Nothing more comes of it: what it was let through with is free again."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        grant, self._grant = self._grant, None
        if grant is not None and grant.released is not None:
            grant.released()


def _explanation(pick: Choice) -> bytes:
    return b"x-hypertier-replica: %s\r\nx-hypertier-reason: %s\r\nx-hypertier-matched-bytes: %d\r\n" % (
        pick.replica.name,
        pick.reason.encode(),
        pick.matched_bytes,
    )
