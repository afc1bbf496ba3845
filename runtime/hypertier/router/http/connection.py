"""One client's connection: requests in their order, each answered before the next is looked at."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Final, Protocol, cast

from hypertier.router.api.openai import Refusal, error_response
from hypertier.router.http.heads import Request
from hypertier.router.http.sides import Client
from hypertier.router.http.wire import BodyBudget, RequestReader

# What a client may send ahead while its request is answered; more is left in the kernel.
MAX_AHEAD_BYTES: Final = 64 * 1024
# Requests that the router answers itself, `/health` or a refusal, come back to back; then others have a turn.
MAX_IN_A_TURN: Final = 64
# After a refusal, what is still on its way is read and dropped, or the close could reach the client
# before the answer.
MAX_LINGER_BYTES: Final = 4 * 1024 * 1024
LINGER_TICKS: Final = 3
# While the router drains. A client sends on a new connection at once, and few ask anew where that is closed.
NEW_TICKS: Final = 1
# Of Linux, 0 elsewhere: its first byte is a state of include/net/tcp_states.h.
_TCP_INFO: Final[int] = getattr(socket, "TCP_INFO", 0)
_ESTABLISHED: Final = 1
_NO_LINGER: Final = struct.pack("ii", 1, 0)  # socket(7): on, for no time


class Owner(Protocol):
    """The router, as a connection sees it."""

    max_head_bytes: int
    max_body_bytes: int
    budget: BodyBudget
    check_head: Callable[[Request], Refusal | None] | None

    @property
    def idle_ticks(self) -> int:
        """How long a connection may be idle while the router drains; -1 for not at all."""
        ...

    @property
    def tick(self) -> int:
        """Seconds, counted."""
        ...

    @property
    def draining(self) -> bool:
        """Connections end with the answer in hand."""
        ...

    def opened(self, connection: ClientConnection) -> None:
        """A client connected."""
        ...

    def closed(self, connection: ClientConnection) -> None:
        """A client is gone."""
        ...

    def handle(self, connection: ClientConnection, request: Request) -> None:
        """Answer, now or later, with `write` and `finish`, `refuse` or `truncate`."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """The connection answered this itself; for the count."""
        ...


class Pending(Protocol):
    """The request in hand, on its way or waiting for it, as a connection sees it.

    `last_tick` is when the other side was last heard, -1 for since the last sweep.
    """

    last_tick: int
    ends_with_connection: bool

    def pause(self) -> None:
        """The client reads slower than it is written to."""
        ...

    def resume(self) -> None:
        """The client caught up."""
        ...

    def cancel(self) -> None:
        """The client is gone."""
        ...

    def time_out(self) -> None:
        """Nothing came for too long."""
        ...


class Switched(Protocol):
    """A WebSocket that is open."""

    def forward(self, data: bytes) -> None:
        """The client says this."""
        ...

    def forward_end(self) -> None:
        """The client says no more."""
        ...


class ClientConnection(Client):
    """Reads requests, hands them to its owner one by one, and writes what comes back.

    A client that goes away takes its request with it. One that does not read is not written to; one that
    sends ahead is not read from.
    """

    def __init__(self, owner: Owner) -> None:
        self.exchange: Pending | None = None
        self._owner = owner
        self._reader = RequestReader(
            max_head_bytes=owner.max_head_bytes,
            max_body_bytes=owner.max_body_bytes,
            budget=owner.budget,
            check_head=owner.check_head,
        )
        self._transport: asyncio.Transport | None = None
        self._request: Request | None = None
        self._request_id = b""
        self._tunnel: Switched | None = None
        self._ahead = bytearray()
        self._reading_paused = False
        self._writing_paused = False
        self._serving = False
        self._waits_for_turn = False
        self._was_heard = False
        self._lingering_since: int | None = None
        self._lingered_bytes = 0
        self._last_tick = owner.tick
        self._message_tick = owner.tick

    @property
    def idle(self) -> bool:
        """No request is being read or answered."""
        reader = self._reader
        return self._request is None and not (self._ahead or reader.started or reader.ready or reader.refusal)

    @property
    def is_new(self) -> bool:
        """Not a byte came of it yet: a client that has just connected, and is about to ask."""
        return not self._was_heard

    @property
    def closes(self) -> bool:
        """The answer in hand is the connection's last."""
        return self._owner.draining or (self._request is not None and not self._request.keep_alive)

    @property
    def peer(self) -> str:
        """The client's IP address; empty where it has none."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) and name else ""

    @property
    def file_number(self) -> int:
        """The kernel's, which is the lowest that was free; -1 where it has none."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if sock is None else cast(int, sock.fileno())

    def turn_away(self, refusal: Refusal) -> None:
        """Answer before anything is asked, and end the connection."""
        self._end_with(refusal)

    # The answer's side, see `sides.Client`.

    def write(self, data: bytes) -> None:
        """Send bytes of the answer."""
        if self._transport is not None:
            self._transport.write(data)

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is complete: close, or look at the next request."""
        closes = not keep_alive or self.closes
        self._end_request()
        if closes:
            self.close()
        elif not self._serving and not self.idle:
            self._serve()

    def refuse(self, refusal: Refusal) -> None:
        """Answer the request in hand with an error; the connection lives on."""
        request = self._request
        self.write(
            error_response(
                refusal,
                request_id=self._request_id,
                keep_alive=not self.closes,
                is_head=request is not None and request.method == b"HEAD",
                path=b"" if request is None else request.path,
            )
        )
        self.finish(keep_alive=True)

    def truncate(self) -> None:
        """The answer broke off: reset, since a plain close would pass for the end of some answers."""
        is_framed = self.exchange is None or not self.exchange.ends_with_connection
        self._end_request()
        if is_framed:
            self.close()
        else:
            self._reset()

    def close(self) -> None:
        """Close once what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; a request in hand is cancelled."""
        if self._transport is not None:
            self._transport.abort()

    def named(self, request_id: bytes) -> None:
        """The id that the router's own answer to the request in hand carries."""
        self._request_id = request_id

    @property
    def request_id(self) -> bytes | None:
        """The id of the request in hand, where it was `named`."""
        return self._request_id or None

    def switch(self, tunnel: Switched) -> None:
        """What the client sent behind its request, and sends from now on, goes there."""
        self._tunnel = tunnel
        ahead, self._ahead = self._reader.behind + bytes(self._ahead), bytearray()
        self._reader.behind = b""
        self.resume_reading()
        if ahead:
            tunnel.forward(ahead)

    def pause_reading(self) -> None:
        """What the client says is taken more slowly than it says it."""
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """It may go on."""
        if self._transport is not None and self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        self._last_tick = self._owner.tick
        self._was_heard = True
        if self._lingering_since is not None:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > MAX_LINGER_BYTES:
                self.abort()
        elif self._tunnel is not None:
            self._tunnel.forward(data)
        elif self._request is not None or self._writing_paused or self._waits_for_turn:
            self._ahead += data
            if len(self._ahead) > MAX_AHEAD_BYTES and not self._reading_paused:
                self._reading_paused = True
                cast(asyncio.Transport, self._transport).pause_reading()
        else:
            self._feed(data)
            self._serve()

    def eof_received(self) -> bool:
        # A client that ends its side wants no answer; engines and other proxies see it so, too.
        transport = cast(asyncio.Transport, self._transport)
        if self._tunnel is not None and transport.can_write_eof():
            self._tunnel.forward_end()
            return True
        if self.exchange is not None:
            self.abort()  # a close would wait until the client has read what was written
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True
        if self.exchange is not None:
            self.exchange.pause()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._last_tick = self._owner.tick
        if self.exchange is not None:
            self.exchange.resume()
        elif not self._serving:
            self._serve()

    def connection_lost(self, exc: Exception | None) -> None:
        exchange, self.exchange = self.exchange, None
        self._end_request()
        self._reader.drop()
        self._transport = None
        if exchange is not None:
            exchange.cancel()
        self._owner.closed(self)

    def sweep(self, *, read_timeout: float, idle_timeout: float, response_timeout: float) -> None:
        """Once a tick: end what has taken too long."""
        tick = self._owner.tick
        silent = tick - self._last_tick
        if self._reading_paused and self._has_left():
            self.abort()
        elif self._lingering_since is not None:
            if tick - self._lingering_since > LINGER_TICKS:
                self.abort()
        elif self._writing_paused:
            if silent > response_timeout:
                self.abort()
        elif self.exchange is not None:
            exchange = self.exchange
            if exchange.last_tick < 0:
                exchange.last_tick = tick
            elif tick - exchange.last_tick > response_timeout:
                exchange.time_out()
        elif self._request is None and self._reader.started:
            head_is_late = not self._reader.in_body and tick - self._message_tick > read_timeout
            if silent > read_timeout or head_is_late:
                self._end_with(
                    Refusal(408, f"the request did not arrive within {read_timeout:g} s", "read_timeout")
                )
        elif self._request is None:
            patience = idle_timeout
            if self._owner.draining:
                patience = float(max(NEW_TICKS if self.is_new else -1, self._owner.idle_ticks))
            if silent > patience:
                self.close()

    def _feed(self, data: bytes) -> None:
        reader = self._reader
        if not reader.started:
            self._message_tick = self._owner.tick
        rest = reader.feed(data)
        if rest:
            self._ahead[:0] = rest

    def _take_turn(self) -> None:
        self._waits_for_turn = False
        if not self._serving:
            self._serve()

    def _serve(self) -> None:
        self._serving = True
        reader = self._reader
        num_left = MAX_IN_A_TURN
        while self._request is None and not self._writing_paused and self._is_open():
            if reader.ready:
                if not num_left:
                    if not self._waits_for_turn:
                        self._waits_for_turn = True
                        asyncio.get_running_loop().call_soon(self._take_turn)
                    break
                num_left -= 1
                self._request = reader.ready.popleft()
                self._owner.handle(self, self._request)
            elif reader.refusal is not None:
                self._end_with(reader.refusal)
            elif self._ahead:
                data, self._ahead = bytes(self._ahead), bytearray()
                self._feed(data)
                if self._reading_paused and not self._ahead:
                    self._reading_paused = False
                    cast(asyncio.Transport, self._transport).resume_reading()
            else:
                if reader.expects_continue:
                    reader.expects_continue = False
                    self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                break
        self._serving = False

    def _reset(self) -> None:
        """Close at once by RST: an abort alone ends like any other connection, where nothing is unread."""
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._transport.abort()

    def _is_open(self) -> bool:
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._lingering_since is None

    def _has_left(self) -> bool:
        """The client ended its side, or the connection: where nothing is read, the kernel alone has heard."""
        if self._transport is None or not _TCP_INFO:
            return False
        sock = self._transport.get_extra_info("socket")
        try:
            state: int = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]
        except OSError:
            return True
        return state != _ESTABLISHED

    def _end_request(self) -> None:
        request, self._request = self._request, None
        self.exchange = self._tunnel = None
        if request is not None:
            self._owner.budget.give(request.num_held_bytes)

    def _end_with(self, refusal: Refusal) -> None:
        """Answer an error and end the connection: what follows on it can't be told apart."""
        self._owner.refused(refusal)
        path = self._reader.refused_path
        self.write(error_response(refusal, request_id=None, keep_alive=False, path=path))
        self._lingering_since = self._owner.tick
        transport = cast(asyncio.Transport, self._transport)
        if transport.can_write_eof():
            transport.write_eof()
        else:
            transport.close()


def accepted(owner: Owner) -> asyncio.Protocol:
    """A client's connection, as the event loop takes it."""
    return cast(asyncio.Protocol, ClientConnection(owner))
