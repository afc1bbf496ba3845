"""A stream that another replica goes on with where its own broke off: see `continuation` for how.

The rule of the house stays for all else: what has begun to answer is never sent anew. Nor is it here: the
prompt and what was written are a new prompt.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from copy import copy
from typing import Any, Final, cast

from hypertier.errors import HttpError
from hypertier.router.admission import Admitted
from hypertier.router.api.openai import Refusal
from hypertier.router.exchange import Exchange
from hypertier.router.http.engine_http import ask
from hypertier.router.http.event_stream import (
    LAST_CHUNK,
    Chunks,
    chunk,
    has_length,
    in_chunks,
    is_chunked,
    is_encoded,
)
from hypertier.router.http.heads import Request, request_head
from hypertier.router.http.plain import ResponseHead
from hypertier.router.http.sides import Client
from hypertier.router.migration import continuation
from hypertier.router.migration.continuation import Plan, Transcript
from hypertier.router.migration.migration import Migration
from hypertier.router.migration.token_ids import WithoutIds
from hypertier.router.prefill.prefill import with_members, without_members
from hypertier.router.proxy import Proxy
from hypertier.router.replicas.replicas import Replica, State
from hypertier.router.strategies.strategy import Choice
from hypertier.router.telemetry.decisions import BrokeOff

MAX_TEXT_BYTES: Final = 64 * 1024
_ACCEPT_ENCODING: Final = re.compile(rb"\r\naccept-encoding:[^\r\n]*", re.IGNORECASE)


def exchange(migration: Migration, proxy: Proxy, client: Client, admitted: Admitted) -> Exchange:
    """The request on its way: one whose engines are asked for tokens, where it can be gone on with."""
    made: Plan | str = "http_1_0"
    request = admitted.request
    if not request.is_http_1_0:
        made = continuation.plan(request.path, request.body)
    if not isinstance(made, str):
        body = with_members(request.body, continuation.ASKED)
        if body is not None:
            request.body = body
            request.take_out(_ACCEPT_ENCODING)  # what is compressed can't be read
            return Migratable(proxy, client, admitted, migration, made)
        made = "malformed"
    migration.ineligible[made] += 1
    return Exchange(proxy, client, admitted)


def sweep(migration: Migration, tick: int, pending: Iterable[object]) -> None:
    """Once a second: take streams away from engines that fell silent inside, as far as others can go on."""
    if not migration.idle_seconds:
        return
    for exchange in pending:
        if isinstance(exchange, Migratable) and exchange.last_tick >= 0:
            silent = tick - exchange.last_tick
            if silent > migration.idle_seconds or (
                silent > migration.idle_where_out_seconds and exchange.replica_is_out
            ):
                exchange.leave_idle()


class Migratable(Exchange):
    """One streamed answer. Until its first byte it is an exchange like others.

    From then on each piece is read: the client gets it without the tokens that it did not ask for. A stream
    that breaks off, or whose engine tells of its own failure, is gone on with on a replica not yet tried.
    """

    _chunks: Chunks | None = None
    _writes_chunks = False
    _is_plain = False  # its engine is asked for what its client asked for, and nobody goes on
    _without_ids: WithoutIds | None = None
    _is_paused = False
    _is_leaving = False  # what its engine still says goes nowhere
    _is_unsaid = False  # nor does what it said
    _is_moving = False  # its engine failed it, and no other has begun
    _num_migrations = 0

    def __init__(
        self, proxy: Proxy, client: Client, admitted: Admitted, migration: Migration, made: Plan
    ) -> None:
        super().__init__(proxy, client, admitted)
        self._migration = migration
        self._transcript = Transcript(made, migration.budget)

    def pause(self) -> None:
        """The client reads slower than the engine writes, and so may the next one."""
        self._is_paused = True
        super().pause()

    def resume(self) -> None:
        """The client caught up."""
        self._is_paused = False
        self.last_tick = -1  # until here it was not listened to
        super().resume()

    def cancel(self) -> None:
        """The client is gone, maybe while nobody has its request."""
        self._ends_on_the_way("client_closed", "client_closed")
        super().cancel()

    def time_out(self) -> None:
        """The engine was silent for too long."""
        if self._chunks is None or self._replica is None:
            super().time_out()
        else:
            self._close_upstream()
            self._go_over("idle")

    @property
    def replica_is_out(self) -> bool:
        """Its engine does not answer its health checks either, or failed others."""
        return self._replica is not None and self._replica.state is State.EJECTED

    def leave_idle(self) -> None:
        """Its engine wrote nothing for a while: go on elsewhere, where that can be.

        Not from one that has not begun (a prompt may take long), nor where the client does not read. Where
        nobody can go on it is waited for: what it says late is better than no end.
        """
        if self._is_paused or self._upstream is None or not self._transcript.has_token or self._why_not():
            return
        if self._transcript.is_finished or not self._proxy.retry_budget.is_spent:
            self._close_upstream()
            self._go_over("idle")

    def _expire(self, seconds: float) -> None:
        self._ends_on_the_way("broken", "deadline")
        super()._expire(seconds)

    def _ends_on_the_way(self, status: str, why: str) -> None:
        """Its client's end, where it had none to go on with it."""
        if not self._is_moving:
            return
        self._migration.ended[why] += 1
        if self._replica is None:
            self._ended_at_none(status)

    # What follows is called by the upstream connection.

    def begin(self, head: ResponseHead, data: bytes) -> None:
        """The head of the answer, or of its rest, which the client does not get to see."""
        if self._num_migrations == 0:
            self._begin(head, data)
            return
        if not head.is_stream or head.ends_with_connection or is_encoded(head):
            self._leave_by("refused")
            return
        self._is_moving = False
        self._migration.ended["continued"] += 1
        self._chunks = Chunks(is_chunked=is_chunked(head))
        self.last_tick = -1
        self._proxy.picker.strategy.first_token(self, self._proxy.now())
        self._computed()
        if self._is_paused:
            super().pause()
        super().relay(self._shown(data))

    def _begin(self, head: ResponseHead, data: bytes) -> None:
        """The first engine's: whatever its form, the client sees no ids."""
        is_measured = has_length(head)
        has_body = is_measured or is_chunked(head) or head.ends_with_connection
        if self._is_plain or not 200 <= head.status < 300 or not has_body:
            super().begin(head, data)
            return
        if is_encoded(head):
            self._is_leaving = True
            asyncio.get_running_loop().call_soon(self._ask_plainly)
            return
        self._chunks = Chunks(is_chunked=is_chunked(head), is_uncut=not head.is_stream)
        self._writes_chunks = not head.ends_with_connection
        if not head.is_stream:
            self._transcript.lose("no_stream")
        elif head.ends_with_connection:  # it ends as it breaks off
            self._transcript.lose("no_chunks")
        shown = self._shown(data)
        if not self._is_unsaid:
            super().begin(in_chunks(head) if is_measured else head, shown)

    def _ask_another(self) -> None:
        """The engine told of its failure before its client saw a byte: none of what it said counts."""
        self._is_leaving = self._is_unsaid = False
        if self._replica is None:  # its client went away in between
            return
        self._close_upstream()
        self._chunks = None
        self._transcript = self._transcript.anew()
        self.failed("error", answering=True)

    def _ask_plainly(self) -> None:
        """The engine's coding can't be read, and so ids not be taken out: have it answer without any."""
        self._is_leaving = False
        replica = self._replica
        if replica is None:  # its client went away in between
            return
        self._close_upstream()
        self._migration.encodes(replica)
        self._proxy.counts.retried("encoded")
        self._send(reuse=True)

    def _send(self, *, reuse: bool) -> None:
        if not (self._is_plain or self._started) and self._replica in self._migration.encoders:
            self._is_plain = True
            self._migration.ineligible["encoded"] += 1
            self._transcript.lose("encoded")
            request = self.request
            request.body = without_members(request.body, continuation.ASKED)
            codings = request.field(b"accept-encoding")
            if codings is not None:
                request.forwarded.append(b"Accept-Encoding: %b\r\n" % codings)
        super()._send(reuse=reuse)

    def relay(self, data: bytes) -> None:
        """Bytes of the body; what an engine says that is being left goes nowhere."""
        self.last_tick = -1
        shown = data if self._chunks is None else self._shown(data)
        if shown:
            super().relay(shown)

    def complete(self, *, keep_alive: bool) -> None:
        """The last byte was relayed."""
        if self._is_leaving:
            self._upstream = None
            return
        chunks = self._chunks
        if chunks is not None and not chunks.is_chunked:
            chunks.is_complete = True
            super().relay(self._shown(b""))
        super().complete(keep_alive=keep_alive)

    def broken(self) -> None:
        """The answer broke off."""
        if self._is_leaving:
            self._upstream = None
        elif self._chunks is None:
            super().broken()
        elif self._replica is None:  # nobody has it: it was on its way to the next
            self._give_it_up("silent")
        else:
            self._go_over("closed")

    def refuse(self, refusal: Refusal) -> None:
        """After the first byte there is nothing to refuse with."""
        if self._started:
            self._give_it_up("no_replica")
        else:
            super().refuse(refusal)

    def _may_be_held(self) -> bool:
        return not self._started and super()._may_be_held()

    def _refuse_for_own_limits(self) -> None:
        if self._started:
            self._release(None)
            self._give_it_up("own_limits")
        else:
            super()._refuse_for_own_limits()

    def _choose(self) -> Choice | None:
        choice = super()._choose()
        return choice.because("migration") if choice is not None and self._num_migrations else choice

    def _ended(self) -> None:
        self._transcript.lose("ended")
        super()._ended()

    def _shown(self, data: bytes) -> bytes:
        """What the client gets of it, in chunks of its own."""
        if self._is_leaving:
            return b""
        chunks, transcript = cast(Chunks, self._chunks), self._transcript
        shown = b""
        for event in chunks.events(data):
            shown += transcript.read(event)
            if transcript.fault:
                if not (self._started or transcript.has_begun) and self.may_retry():
                    self._is_leaving = self._is_unsaid = True
                    asyncio.get_running_loop().call_soon(self._ask_another)
                    return b""
                why = self._why_not() or self._spent()
                if not why:
                    self._leave_by("")
                    break
                self._migration.causes["error"] += 1
                self._migration.ended[why] += 1
                shown += transcript.pass_on(why)
        if chunks.is_uncut and not self._is_leaving:
            shown += self._uncut(chunks)
        if not self._writes_chunks:
            return shown
        return chunk(shown) + (LAST_CHUNK if chunks.is_complete and not self._is_leaving else b"")

    def _uncut(self, chunks: Chunks) -> bytes:
        """An event that is longer than any: the rest is shown as it comes, and nobody could go on with it."""
        if self._num_migrations:  # it has another shape than what the client began to read
            self._leave_by("long_event")
            return b""
        self._transcript.lose("long_event")
        if self._without_ids is None:
            self._without_ids = WithoutIds()
        return self._without_ids.read(chunks.uncut(), is_last=chunks.is_complete)

    def _why_not(self) -> str:
        """Why the answer can't be gone on with elsewhere; empty where it can."""
        proxy, replica = self._proxy, self._replica
        if self._transcript.lost:
            return self._transcript.lost
        if self._transcript.is_finished:
            return ""
        if not self._transcript.has_begun:  # it broke off inside its first piece
            return "no_token_ids"
        if self._num_migrations >= self._migration.limit:
            return "limit"
        if not self._transcript.has_limit(self._migration.context_of(self.inference.model)):
            return "context"
        tried = {*self._tried, replica} if replica is not None else self._tried
        return "" if proxy.picker.candidates(self.inference, tried) else "no_replica"

    def _spent(self) -> str:
        """Why nobody is asked for the rest, though somebody could go on."""
        return "" if self._transcript.is_finished or self._proxy.retry_budget.has() else "budget"

    def _leave_by(self, why: str) -> None:
        """Leave the engine that is speaking, as soon as it has been listened to."""
        self._is_leaving = self._is_moving = True
        asyncio.get_running_loop().call_soon(self._left, why)

    def _left(self, why: str) -> None:
        self._is_leaving = False
        if self._replica is None:  # its client went away in between
            return
        self._close_upstream()
        if why:
            self._release(None)
            self._give_it_up(why)
        else:
            self._go_over("error")

    def _go_over(self, cause: str) -> None:
        """The replica failed inside the answer: to the next one, if that may be. `cause`: see `BrokeOff`."""
        self._migration.causes[cause] += 1
        why = self._why_not()
        if not why and not self._transcript.is_finished and not self._proxy.retry_budget.take():
            why = "budget"
        self._is_moving = not why
        if why:
            self._migration.ended[why] += 1
            super().broken()
            return
        replica = cast(Replica, self._replica)
        seconds = self._proxy.now() - self._begun_at
        self._broke_off += (BrokeOff(cast(Choice, self.pick), cause, seconds),)
        if self.trace is not None:
            self.trace.broke_off(replica.url, cause)
        self._upstream = None
        self.last_tick = -1
        if self._transcript.is_finished:
            self._finish_alone()
        else:
            self._num_migrations += 1
            self._release(None)
            self._tried = {*self._tried, replica}
            self._connecting = asyncio.get_running_loop().create_task(self._go_on())
        self._proxy.outliers.failed(replica)
        self._proxy.suspect(replica)

    def _finish_alone(self) -> None:
        """All was said but for how it ends."""
        self._is_moving = False
        self._migration.ended["finished"] += 1
        super().relay(chunk(self._transcript.ending()) + LAST_CHUNK)
        super().complete(keep_alive=True)

    async def _go_on(self) -> None:
        """Find where the client's text ends, and ask another replica for the rest."""
        try:
            async with asyncio.timeout(self._migration.seam_seconds):
                is_found = await self._transcript.seam(self._text_of)
        except (HttpError, TimeoutError):
            is_found = False
        self._connecting = None
        if not is_found:
            self._give_it_up("seam")
            return
        body = self._transcript.rest(self._migration.context_of(self.inference.model))
        if isinstance(body, str):
            self._give_it_up(body)
            return
        self.request = _asking(self.request, continuation.PATH, body)
        self.start()

    async def _text_of(self, tokens: list[int]) -> str:
        """What a replica writes for them. Raises HttpError."""
        candidates = self._proxy.picker.candidates(self.inference, self._tried)
        if not candidates:
            raise HttpError("no replica is left to ask")
        named = {} if self.inference.model is None else {"model": self.inference.model.decode()}
        asked = _asking(self.request, b"/detokenize", json.dumps({**named, "tokens": tokens}).encode())
        head = request_head(asked, self.request_id)
        status, answer = await ask(
            candidates[0].address,
            head + bytes(asked.body),
            timeout_seconds=self._migration.seam_seconds,
            max_bytes=MAX_TEXT_BYTES,
        )
        try:
            told: Any = json.loads(answer)["prompt"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise HttpError(f"/detokenize answered {status} without a text") from error
        return str(told)

    def _give_it_up(self, why: str) -> None:
        """No replica has it any more: its client sees it break off."""
        self._migration.ended[why] += 1
        self._connecting = None
        self._ended_at_none("broken")
        self._ended()
        self.client.truncate()


def _asking(request: Request, path: bytes, body: bytes) -> Request:
    """The same head with another path and body."""
    asked = copy(request)
    asked.target = path
    asked.body = body
    return asked
