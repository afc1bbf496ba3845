"""One connection to a replica: sends a request, and reads where its answer ends."""

from __future__ import annotations

import asyncio
import re
from typing import Final, cast

import httptools

from hypertier.router.http.chunks import DONE, NOT_PLAIN, before, read_chunks
from hypertier.router.http.gathering import ENOUGH_BYTES, NUM_QUICK, QUICK_SECONDS, Gathering
from hypertier.router.http.heads import is_framed_for_clients, response_head
from hypertier.router.http.plain import CHUNKED, AnswerReader, ResponseHead
from hypertier.router.http.sides import Carried
from hypertier.router.replicas.replicas import Replica

# Answers after which the exchange is asked whether it tries another replica.
ASKED_STATUSES: Final = frozenset({404, 502, 503, 504})
MAX_RESPONSE_HEAD_BYTES: Final = 256 * 1024
MAX_IDLE_PER_REPLICA: Final = 256
# Below this a head and a body are one write; above, joining would copy more than a second buffer costs.
_JOIN_BYTES: Final = 64 * 1024
_BY_PARSER: Final = -2
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")
_BEGIN: Final = b"HTTP/1."
_NO_END: Final = 1 << 62


class Upstream:
    """Carries one exchange at a time, waits in the replica's pool in between.

    The end of an answer with a plain head is found by counting its bytes or chunks, of any other by llhttp.
    With `gathering` a stream whose pieces come quickly one after another is read in larger ones.
    """

    __slots__ = (
        "_answers",
        "_chunk_left",
        "_complete",
        "_ends_with_connection",
        "_exchange",
        "_fd",
        "_gathering",
        "_gathers",
        "_head",
        "_head_done",
        "_held",
        "_is_gathering",
        "_is_head",
        "_is_quick",
        "_is_tunnel",
        "_keeps_alive",
        "_left",
        "_may_reuse",
        "_num_quick",
        "_parser",
        "_piece_at",
        "_replica",
        "_transport",
    )

    def __init__(self, replica: Replica, gathering: Gathering | None = None) -> None:
        self._replica = replica
        self._gathering = gathering
        self._gathers = False  # the answer in hand is a stream
        self._piece_at = 0.0
        self._num_quick = 0  # pieces that followed their last one quickly, up to the last that did not
        self._is_quick = False  # pieces of the stream in hand gathered, or would among more of its kind
        self._is_gathering = False  # for a moment few bytes do not wake us
        self._fd = -1
        self._exchange: Carried | None = None
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._answers = AnswerReader()
        self._left = _BY_PARSER  # bytes of the body to come, or CHUNKED
        self._chunk_left = 0  # see `read_chunks`
        self._head = b""
        self._head_done = False
        self._held: ResponseHead | None = None  # read, and not sent on before the body begins
        self._complete = False
        self._ends_with_connection = False
        self._is_head = False
        self._may_reuse = True
        self._keeps_alive = False
        self._is_tunnel = False

    @property
    def usable(self) -> bool:
        """It is open and waits for a request."""
        transport = self._transport
        return transport is not None and self._exchange is None and not transport.is_closing()

    def send(
        self, exchange: Carried, head: bytes, body: bytes | bytearray, *, is_head: bool, may_reuse: bool
    ) -> None:
        """Carry this request; its answer goes to `exchange`. Where it `may_reuse`, others follow."""
        transport = cast(asyncio.Transport, self._transport)
        self._exchange = exchange
        self._head_done = self._complete = self._ends_with_connection = False
        self._is_head = is_head
        self._may_reuse = may_reuse
        self._gathers = False
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

    def forward(self, data: bytes) -> None:
        """After a switch: more of what the client says."""
        if self._transport is not None:
            self._transport.write(data)

    def forward_end(self) -> None:
        """It says no more."""
        transport = self._transport
        if transport is not None and transport.can_write_eof():
            transport.write_eof()
        elif transport is not None:
            transport.close()

    def gathered(self, now: float) -> None:
        """What gathered may be read: quick is what comes quickly after this."""
        self._piece_at = now
        self._end_gathering()

    def close(self) -> None:
        """Close at once, without a word to the exchange."""
        self._exchange = None
        self._be_slow()
        if self._transport is not None:
            self._transport.abort()

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._gathering is not None:
            sock = transport.get_extra_info("socket")
            self._fd = sock.fileno() if sock is not None else -1

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:  # an engine that speaks unasked has lost count, and so would the next request
            self.close()
        elif self._head_done:
            self._continue(exchange, data)
        elif self._held is not None:
            head, self._held = self._held, None
            self._begin(exchange, head, data)
        else:
            found = None if self._is_head or self._head else self._answers.read(data)
            if found is None:
                found = self._read_heads(exchange, data)
                if found is None:
                    return
            elif found[0].status in ASKED_STATUSES and exchange.may_retry(found[0].status):
                self.close()
                exchange.failed(str(found[0].status))
                return
            else:
                self._left = cast(int, found[0].length)
                self._keeps_alive = True
                self._chunk_left = 0
            head, end = found
            self._begin(exchange, head, data[end:] if end else self._head)

    def connection_lost(self, exc: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        self._be_slow()
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

    def pause_writing(self) -> None:
        # Of a request all there is to send was handed over, and is held by it anyway.
        if self._is_tunnel and self._exchange is not None:
            self._exchange.hold()

    def resume_writing(self) -> None:
        if self._is_tunnel and self._exchange is not None:
            self._exchange.go_on()

    # What follows is called by httptools.

    def on_message_complete(self) -> None:
        self._complete = True
        # Known here alone: afterwards llhttp forgets.
        self._keeps_alive = cast(httptools.HttpResponseParser, self._parser).should_keep_alive()

    def _begin(self, exchange: Carried, head: ResponseHead, data: bytes) -> None:
        if self._left == 0:
            self._complete = True
        if data and not self._is_body(data):
            self._fail(exchange)
        elif data or self._complete or self._is_head:
            self._head, self._head_done = b"", True
            self._ends_with_connection = head.ends_with_connection
            exchange.begin(head, data)
            if self._complete or self._is_head:
                self._finish(exchange)
            elif head.is_stream and self._gathering is not None:
                self._gathers, self._piece_at = True, self._gathering.now()
                # Where the engine's last stream here was quick to its end, this one is likely to be.
                if self._num_quick >= NUM_QUICK:
                    self._begin_gathering()
                else:
                    self._num_quick = 0
        else:
            # vLLM sends a stream's head at once and may compute for minutes before it has more to say.
            self._head = b""
            self._held = head

    def _continue(self, exchange: Carried, data: bytes) -> None:
        if self._is_body(data):
            exchange.relay(data)
            if self._complete:
                self._finish(exchange)
            elif self._gathers:
                self._gather(len(data))
        else:
            self._fail(exchange)

    def _gather(self, num_bytes: int) -> None:
        """Let the next pieces gather for a moment, if the last ones came quickly."""
        now = cast(Gathering, self._gathering).now()
        is_quick, self._piece_at = now - self._piece_at <= QUICK_SECONDS, now
        self._num_quick = self._num_quick + 1 if is_quick else 0
        if self._num_quick >= NUM_QUICK and num_bytes <= ENOUGH_BYTES and not self._is_gathering:
            self._begin_gathering()

    def _begin_gathering(self) -> None:
        if self._gathering is not None and self._transport is not None and not self._transport.is_closing():
            if not self._is_quick:
                self._is_quick = True
                self._gathering.num_quick += 1
            self._is_gathering = self._gathering.begin(self, self._fd)

    def _be_slow(self) -> None:
        """Its stream is over: it makes no other's pieces wait."""
        if self._is_quick and self._gathering is not None:
            self._is_quick = False
            self._gathering.num_quick -= 1

    def _end_gathering(self) -> None:
        if self._is_gathering and self._gathering is not None:
            self._is_gathering = False
            if self._transport is not None and not self._transport.is_closing():
                self._gathering.end(self._fd)

    def _is_body(self, data: bytes) -> bool:
        """It continues the answer's body, and nothing follows that; says when the body is `_complete`."""
        left = self._left
        if left >= 0:
            self._left = left = left - len(data)
            self._complete = left == 0
            return left >= 0
        if self._is_head:
            return False
        if left == CHUNKED:
            was = self._chunk_left
            self._chunk_left = more = read_chunks(data, was)
            if more != NOT_PLAIN:
                self._complete = more == DONE
                return more >= DONE
            self._parse_chunks(was)
        parser, view = cast(httptools.HttpResponseParser, self._parser), memoryview(data)
        try:
            # llhttp passes over line ends behind a message: what the last byte ends has nothing behind it.
            for part in (view[:-1], view[-1:]):
                if self._complete:
                    return False
                parser.feed_data(part)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return False
        return True

    def _parse_chunks(self, left: int) -> None:
        """Let llhttp, which has not seen the head, count the chunks that follow."""
        self._begin_parser()
        cast(httptools.HttpResponseParser, self._parser).feed_data(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + before(left)
        )

    def _begin_parser(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._left = _BY_PARSER

    def _read_heads(self, exchange: Carried, data: bytes) -> tuple[ResponseHead, int] | None:
        """Read up to the final head, by llhttp; what follows it stays in `_head`. None where none came."""
        if not self._head:
            self._begin_parser()
        buffered = self._head + data
        parser = cast(httptools.HttpResponseParser, self._parser)
        while True:
            end = buffered.find(b"\r\n\r\n") + 4
            if _is_no_head(buffered if end < 4 else buffered[:end]):
                self._fail(exchange)
                return None
            if end < 4:
                self._head = buffered
                if len(buffered) > MAX_RESPONSE_HEAD_BYTES:
                    self._fail(exchange)
                return None
            raw, buffered = buffered[:end], buffered[end:]
            try:
                parser.feed_data(raw)
            except httptools.HttpParserUpgrade:
                self._switch(exchange, raw, buffered)
                return None
            except httptools.HttpParserError:
                self._fail(exchange)
                return None
            status = parser.get_status_code()
            if status >= 200:
                break
            # These are for this hop alone, and have no body, whatever they say; llhttp believes some of them.
            self._complete = False
            self._begin_parser()
            parser = cast(httptools.HttpResponseParser, self._parser)
        if not is_framed_for_clients(raw):
            self._fail(exchange)
            return None
        if status in ASKED_STATUSES and exchange.may_retry(status):
            self.close()
            exchange.failed(str(status))
            return None
        self._head = buffered
        return response_head(raw, status=status, is_head=self._is_head), 0

    def _switch(self, exchange: Carried, raw: bytes, data: bytes) -> None:
        """What follows is no HTTP, and ends with the connection; only where the request asked for that."""
        self._head = b""
        self._head_done = self._is_tunnel = self._ends_with_connection = True
        self._left = _NO_END
        if not exchange.switched(raw, data):
            self._head_done = self._is_tunnel = False
            self._fail(exchange)

    def _finish(self, exchange: Carried) -> None:
        self._exchange = None
        self._be_slow()
        if self._is_gathering:
            self._end_gathering()
        transport = self._transport
        reusable = (
            self._keeps_alive
            and not self._is_head
            and self._may_reuse
            and self._replica.usable_pool(MAX_IDLE_PER_REPLICA)
        )
        # An engine may answer before it has read the body, and what follows here would wait for that.
        if (
            transport is not None
            and reusable
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        ):
            transport.resume_reading()
            self._replica.idle.append(self)
        elif transport is not None:
            transport.abort()
        exchange.complete(keep_alive=True)

    def _fail(self, exchange: Carried) -> None:
        """The engine's answer is not HTTP, or more than one: nothing of it can be trusted."""
        begun = self._head_done
        self.close()
        if begun:
            exchange.broken()
        else:
            exchange.failed("malformed")


def _is_no_head(data: bytes) -> bool:
    """What begins so never becomes a head: nobody needs to wait for its end."""
    return data[: len(_BEGIN)] != _BEGIN[: len(data)] or _BARE_LF.search(data) is not None
