"""One request on its way to a replica and back, with the rule of the house: what has not begun to answer may
be tried elsewhere, what has begun never is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final, cast

from hypertier.router.admission import Admitted
from hypertier.router.api.openai import Refusal
from hypertier.router.holding import Place
from hypertier.router.http.decrypting import Decrypting
from hypertier.router.http.event_stream import Chunks, is_chunked, without_chunks
from hypertier.router.http.heads import request_head
from hypertier.router.http.plain import ResponseHead
from hypertier.router.http.sides import Carried, Client
from hypertier.router.http.upstream import Upstream
from hypertier.router.process.own_limits import limit_of
from hypertier.router.proxy import Proxy
from hypertier.router.replicas.replicas import Replica
from hypertier.router.routes.routes import STRATEGY_HEADER
from hypertier.router.strategies.strategy import Choice
from hypertier.router.telemetry.decisions import MAX_NAME_BYTES, BrokeOff, Decision, Prefilled, weigh
from hypertier.router.telemetry.tracing import Trace

# Of an engine that has not begun, or can't; 0 is a failure without a status.
RETRIED_STATUSES: Final = frozenset({0, 502, 503, 504})

# Of an answer's end, kept for who asks what it took: `usage` stands there.
END_BYTES: Final = 4096


_CLASSES: Final = tuple(f"{digit}xx" for digit in range(10))


class Exchange(Carried):
    """One request on its way, from the pick to the last byte of the answer.

    Before the answer's first byte a failure is retried on a replica not yet tried: always where no
    connection came about, at most `settings.retries` times where the replica took the request and failed.
    After it, never.
    """

    # What most requests never change costs nothing here; the rest is set for each.
    pick: Choice | None = None
    last_tick = -1
    ends_with_connection = False
    _replica: Replica | None = None
    _upstream: Upstream | None = None
    _connecting: asyncio.Task[None] | Place | None = None
    _tried: Collection[Replica] = ()
    _failures: tuple[str, ...] = ()  # of those in `_tried`, see `failed`
    _has_failed = False
    _is_computed = False
    _started = False
    _was_woken = False
    _reused = False
    _status = 0
    _pending_bytes = 0
    _deadline: asyncio.TimerHandle | None = None
    _first_byte_at: float | None = None
    trace: Trace | None = None
    prefilled: Prefilled | None = None
    _broke_off: tuple[BrokeOff, ...] = ()
    _end_status = "5xx"
    _candidates: Sequence[dict[str, Any]] = ()
    _end_of_answer: bytearray | None = None
    _unchunking: Chunks | None = None  # its client is of HTTP/1.0, which has no chunks

    def __init__(
        self,
        proxy: Proxy,
        client: Client,
        admitted: Admitted,
    ) -> None:
        self.client = client
        self.request = request = admitted.request
        self.inference = admitted.inference
        self.request_id = admitted.request_id
        self._grant = grant = admitted.grant
        if grant is not None and grant.answered is not None:
            self._end_of_answer = bytearray()
        self._proxy = proxy
        settings = proxy.settings
        self._is_weighed = settings.explain_on_request and request.field(b"x-hypertier-explain") is not None
        self._is_explained = settings.explain or self._is_weighed
        if self._is_weighed:
            self._end_of_answer = bytearray()
        self._attempts_left = proxy.settings.retries
        self._begun_at = proxy.now()

    @property
    def streamed(self) -> bool:
        """The answer comes token by token."""
        return self.inference.streamed

    @property
    def answering_replica(self) -> Replica | None:
        """The one whose answer grew since the last tick, if any."""
        return self._replica if self._started and self.last_tick < 0 else None

    def end_by(self, seconds: float, waited_seconds: float = 0.0) -> None:
        """Give up, answered or not, after `seconds`, of which some are gone; the engine sees it."""
        left = max(0.0, seconds - waited_seconds)
        self._deadline = asyncio.get_running_loop().call_later(left, self._expire, seconds)

    def start(self) -> None:
        """Pick and send. Everything that comes of it reaches the client."""
        proxy, inference = self._proxy, self.inference
        if self._is_weighed:  # before the pick, which takes the prompt as sent and so as cached
            among = proxy.picker.candidates(inference, self._tried)
            self._candidates = weigh(proxy.picker.strategy, inference, among, proxy.now())
        pick = self._choose()
        if pick is None:
            self._give_up()
            return
        replica = pick.replica
        matched_bytes = pick.matched_bytes
        self.pick = pick
        proxy.counts.picked(pick.reason, inference.num_bytes, matched_bytes)
        self._pending_bytes = pending_bytes = max(0, inference.num_bytes - matched_bytes)
        self._is_computed = False
        self._replica = replica
        proxy.replicas.start(replica, pending_bytes)
        replica.waiting.add(self)
        grant = self._grant
        if grant is not None and grant.slot is not None:
            grant.slot.sent(replica)
        self._send(reuse=True)

    def has_replica(self) -> bool:
        """One that may be picked serves it."""
        return bool(self._proxy.picker.candidates(self.inference, self._tried))

    def wake(self) -> None:
        """It was held, and a replica came; see `holding.Holdable`."""
        self._connecting = None
        self._was_woken = True
        self.start()

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

    def may_retry(self, status: int = 0) -> bool:
        """A failure now, or an answer of this status, could be tried on another replica."""
        proxy, replica = self._proxy, cast(Replica, self._replica)
        if self._attempts_left <= 0 or status not in RETRIED_STATUSES:
            return False
        others = proxy.picker.candidates(self.inference, {*self._tried, replica})
        return bool(others) and proxy.retry_budget.has()

    # What follows is called by the upstream connection.

    def begin(self, head: ResponseHead, data: bytes) -> None:
        """The head of the answer and what came with it: from here on there is no other replica."""
        proxy, client = self._proxy, self.client
        if self.request.is_http_1_0 and is_chunked(head):
            self._unchunking = Chunks(is_uncut=True)
            head, data = without_chunks(head), self._unchunking.body(data)
        self._started = True
        self._status = head.status
        self.last_tick = -1
        self.ends_with_connection = head.ends_with_connection
        now = proxy.now()
        if head.is_stream:
            proxy.picker.strategy.first_token(self, now)
        self._first_byte_at = now
        if self.trace is not None:
            self.trace.first_byte()
        proxy.counts.first_byte(now - self._begun_at)
        self._computed()
        more = self._further_lines(head.has_request_id)
        if head.ends_with_connection or client.closes:
            more += b"connection: close\r\n"
        client.write(b"%b%b\r\n%b" % (head.raw, more, data))
        if self._end_of_answer is not None:
            keep_end(self._end_of_answer, data)

    def switched(self, raw: bytes, data: bytes) -> bool:
        """An engine that speaks another protocol, unasked, can't be understood."""
        return False

    def hold(self) -> None:
        """Nothing is forwarded."""

    def go_on(self) -> None:
        """Nothing is forwarded."""

    def relay(self, data: bytes) -> None:
        """Bytes of the answer's body, framing included, as the engine sent them."""
        self.last_tick = -1
        if self._unchunking is not None:
            data = self._unchunking.body(data)
        self.client.write(data)
        if self._end_of_answer is not None:
            keep_end(self._end_of_answer, data)

    def complete(self, *, keep_alive: bool) -> None:
        """The answer's last byte was relayed."""
        self._upstream = None
        if self._replica is not None:
            if self._status < 500:
                self._proxy.outliers.succeeded(self._replica)
            else:
                self._proxy.outliers.failed(self._replica, self._status)
        self._release(_CLASSES[self._status // 100])
        if self._end_of_answer and self._grant is not None and self._grant.answered is not None:
            self._grant.answered(bytes(self._end_of_answer[-END_BYTES:]))
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
            self._proxy.counts.retried("stale")
            self._send(reuse=False)
            return
        self._has_failed = True
        if cause == "connect":
            self._proxy.replicas.eject(replica, cause)
        else:
            self._attempts_left -= 1
            self._proxy.outliers.failed(replica, int(cause) if cause.isdigit() else 0)
            self._proxy.suspect(replica)
        self._release(None)
        self._gave_nothing(replica, cause)
        spent = self._attempts_left < 0 or not self._proxy.picker.candidates(self.inference, self._tried)
        # Where no connection came about nothing was sent, and the replica is out: that costs no budget.
        if spent or (cause != "connect" and not self._proxy.retry_budget.take()):
            self._give_up()
            return
        self._proxy.counts.retried(cause)
        self.start()

    def _gave_nothing(self, replica: Replica, cause: str) -> None:
        """It was asked, and is not asked again."""
        self._tried = {*self._tried, replica}
        self._failures += (cause,)

    def _further_lines(self, has_request_id: bool) -> bytes:
        """What the router adds to an answer's head."""
        more = b"" if has_request_id else b"x-request-id: %b\r\n" % self.request_id
        if self._is_explained and self.pick is not None:
            more += _explanation(self.pick)
            if self.prefilled is not None:
                more += self.prefilled.headers
        strategy = self.inference.strategy
        if strategy is not None and self.request.field(STRATEGY_HEADER) is not None:
            more += b"x-hypertier-strategy: %s\r\n" % strategy.encode()
        if self._grant is not None:
            more += self._grant.headers
        return more

    def _choose(self) -> Choice | None:
        return self._proxy.picker.pick(self, self.inference, self._proxy.now(), self._tried)

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
        request = self.request
        upstream.send(
            self,
            request_head(request, self.request_id),
            request.body,
            is_head=request.method == b"HEAD",
            may_reuse=not request.is_http_1_0,
        )

    async def _connect(self, replica: Replica) -> None:
        upstream = Upstream(replica, self._proxy.gathering)
        host, port, tls = replica.address.host, replica.address.port, replica.address.tls
        try:
            async with asyncio.timeout(self._proxy.settings.connect_timeout_seconds):
                protocol = cast(asyncio.Protocol, upstream)
                await asyncio.get_running_loop().create_connection(
                    lambda: protocol if tls is None else Decrypting(protocol),
                    host,
                    port,
                    ssl=tls.context if tls is not None else None,
                    server_hostname=tls.name_of(host) if tls is not None else None,
                )
        except asyncio.CancelledError:
            upstream.close()
            raise
        except (OSError, TimeoutError) as error:
            upstream.close()
            self._connecting = None
            limit = limit_of(error)
            if limit is not None:
                self._proxy.limits.met("replica", limit)
                self._refuse_for_own_limits()
                return
            self.failed("connect")
            return
        self._connecting = None
        self._send_on(upstream)

    def _refuse_for_own_limits(self) -> None:
        """This machine has no further connection to give: no replica is at fault."""
        self._release("5xx")
        self._ended()
        problem = "the router has no more connections to give"
        self.client.refuse(Refusal(503, problem, "overloaded", retry_after_seconds=1))

    def _give_up(self) -> None:
        holding = self._proxy.holding
        if holding is not None and self._may_be_held():
            self._tried = self._failures = ()
            self._was_woken = False
            held = holding.hold(self, self._begun_at)
            if isinstance(held, Place):
                self._connecting = held
                if self._grant is not None and self._grant.slot is not None:
                    self._grant.slot.leave()
            else:
                self.refuse(held)
            return
        if self._tried:
            refusal = Refusal(
                502,
                f"no replica served the request: {_said(self._failures)}",
                "bad_gateway",
                retry_after_seconds=1,
            )
        else:
            refusal = Refusal(503, "no healthy replica", "no_replica", retry_after_seconds=1)
        self.refuse(refusal)

    def _may_be_held(self) -> bool:
        """It has something to compute, may be sent once more, and there is nowhere to send it."""
        picker = self._proxy.picker
        return (
            bool(self.request.body)
            and self._attempts_left >= 0
            and not picker.candidates(self.inference)
            and picker.may_come(self.inference)
        )

    def refuse(self, refusal: Refusal) -> None:
        """Nothing was answered, and nothing will be but this."""
        self._connecting = None
        self._ended_at_none("5xx")
        self._ended()
        self.client.refuse(refusal)

    def _ended_at_none(self, status: str) -> None:
        """Count and note an end that is no replica's: none has the request."""
        self._proxy.counts.answered("", status)
        self._note(status)

    def _close_upstream(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.close()
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()

    def _computed(self) -> None:
        """The replica has the prompt behind it."""
        replica = self._replica
        if replica is not None and not self._is_computed:
            self._is_computed = True
            replica.waiting.discard(self)
            replica.pending_bytes -= self._pending_bytes

    def _release(self, status: str | None) -> None:
        """Give back what the exchange holds of its replica, once; count it under `status`."""
        replica, proxy = self._replica, self._proxy
        if replica is None:
            return
        self._computed()
        self._replica = None
        if status is not None:  # before the replica may be forgotten, and its series with it
            proxy.counts.answered(replica.url, status)
        proxy.replicas.finish(replica)
        proxy.picker.strategy.finished(self, proxy.now())
        if status is not None:
            self._note(status)

    def _end_trace(self, trace: Trace) -> None:
        pick, prefilled, broke_off = self.pick, self.prefilled, self._broke_off
        began = broke_off[0].choice if broke_off else pick
        trace.end(
            request_id=self.request_id.decode("latin-1"),
            status=self._end_status,
            prompt_bytes=self.inference.num_bytes,
            replica=None if pick is None else pick.replica.url,
            reason=None if pick is None else pick.reason,
            matched_bytes=None if pick is None else pick.matched_bytes,
            predicted_ttft_seconds=None if began is None else began.predicted_seconds,
            broke_off=[one.choice.replica.url for one in broke_off] or None,
            num_tried=len(self._tried),
            prefill_replica=None if prefilled is None else prefilled.replica.url,
            prefill_end=None if prefilled is None else prefilled.end,
            prefill_predicted_seconds=None if prefilled is None else prefilled.predicted_seconds,
            prefill_seconds=None if prefilled is None else prefilled.seconds,
        )

    def _note(self, status: str) -> None:
        """Keep what was decided, for who asks."""
        self._end_status = status
        begun_at, first, model = self._begun_at, self._first_byte_at, self.inference.model
        now = self._proxy.now()
        self._proxy.decisions.add(
            Decision(
                self.request_id[:MAX_NAME_BYTES],
                None if model is None else model[:MAX_NAME_BYTES],
                self.inference.num_bytes,
                self.pick,
                [replica.url for replica in self._tried] if self._tried else (),
                status,
                None if first is None else first - begun_at,
                now - begun_at,
                self._candidates,
                bytes((self._end_of_answer or b"")[-END_BYTES:]) if self._is_weighed else b"",
                now,
                self.prefilled,
                self._broke_off,
                self._has_failed,
            )
        )

    def _ended(self) -> None:
        """Nothing more comes of it: what it was let through with is free again."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._was_woken and self._proxy.holding is not None:
            self._proxy.holding.ended["sent"] += 1
        trace, self.trace = self.trace, None
        if trace is not None:
            self._end_trace(trace)
        grant, self._grant = self._grant, None
        if grant is not None:
            grant.end()


_CAUSES: Final = {
    "connect": "could not be connected to",
    "reset": "closed the connection",
    "malformed": "sent what is no answer of HTTP/1.1",
    "silent": "fell silent",
    "error": "told of its own failure",
}


def _said(causes: Sequence[str]) -> str:
    """What came of the replicas that were asked, in words."""
    counted = {cause: causes.count(cause) for cause in causes}
    return ", ".join(
        f"{number} {_CAUSES.get(cause, f'answered {cause}')}" for cause, number in counted.items()
    )


def keep_end(end: bytearray, data: bytes) -> None:
    """Have `end` end with the last `END_BYTES` that came, and seldom cut it: pieces are many and short."""
    end += data if len(data) <= END_BYTES else data[-END_BYTES:]
    if len(end) > 4 * END_BYTES:
        del end[:-END_BYTES]


def _explanation(pick: Choice) -> bytes:
    lines = b"x-hypertier-replica: %s\r\nx-hypertier-reason: %s\r\nx-hypertier-matched-bytes: %d\r\n" % (
        pick.replica.name,
        pick.reason.encode(),
        pick.matched_bytes,
    )
    if pick.predicted_seconds is not None:
        lines += b"x-hypertier-predicted-ttft: %.3f\r\n" % pick.predicted_seconds
    return lines
