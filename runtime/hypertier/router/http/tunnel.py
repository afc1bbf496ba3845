"""WebSockets, as of vLLM's `/v1/realtime`: a request like others until its engine says 101, then bytes.

What is said on one is not read. Neither side is read faster than the other takes it.
"""

from __future__ import annotations

from typing import cast

from hypertier.router.admission import Admitted
from hypertier.router.exchange import Exchange
from hypertier.router.http.connection import ClientConnection
from hypertier.router.http.upstream import Upstream
from hypertier.router.proxy import Proxy


class Tunnel(Exchange):
    """One WebSocket, in flight on its replica for as long as it is open.

    Any answer but 101 ends the connection, and what the client sent behind its request goes nowhere.
    """

    def __init__(self, proxy: Proxy, connection: ClientConnection, admitted: Admitted) -> None:
        super().__init__(proxy, connection, admitted)
        self._connection = connection

    def switched(self, raw: bytes, data: bytes) -> bool:
        """The engine speaks it: from here on there is no other replica, nor HTTP."""
        self._started = self.ends_with_connection = True
        self._status = 101
        self.last_tick = -1
        now = self._proxy.now()
        self._first_byte_at = now
        self._proxy.counts.first_byte(now - self._begun_at)
        self._computed()
        further = self._further_lines(has_request_id=b"\r\nx-request-id:" in raw.lower())
        self._connection.write(b"%b%b\r\n%b" % (raw[:-2], further, data))
        self._connection.switch(self)
        return True

    def forward(self, data: bytes) -> None:
        """The client says this."""
        self.last_tick = -1
        if self._upstream is not None:
            self._upstream.forward(data)

    def forward_end(self) -> None:
        """The client says no more, and may still listen."""
        if self._upstream is not None:
            self._upstream.forward_end()

    def hold(self) -> None:
        """The engine reads slower than the client writes."""
        self._connection.pause_reading()

    def go_on(self) -> None:
        """The engine caught up."""
        self._connection.resume_reading()

    def time_out(self) -> None:
        """Nobody said anything for too long; before the 101 that is the engine's fault."""
        if not self._started:
            super().time_out()
            return
        cast(Upstream, self._upstream).close()
        self._upstream = None
        self._release("1xx")
        self._ended()
        self._connection.finish(keep_alive=False)
