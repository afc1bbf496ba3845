"""Connections to one server that speaks RESP."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from hypertier.errors import TierError, TierUnavailableError, said
from hypertier.tier.address import L2Address
from hypertier.tier.backends.backend import Buffer, Listener
from hypertier.tier.backends.connecting import Places, Trust, seconds_left
from hypertier.tier.backends.resp_reader import ErrorReply, Reply, ReplyReader, drop
from hypertier.tier.circuit import Circuit
from hypertier.tier.credentials import CredentialSource

T = TypeVar("T")

GRACE_SECONDS = 0.005

_TIMEVAL = struct.Struct("@ll")  # https://man7.org/linux/man-pages/man7/socket.7.html (read 2026-12-01)


def command(*parts: bytes) -> bytes:
    """Encode a command."""
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


# of a primary that became a replica: by its name, a new connection finds the one that took its place; and of
# one that asks for a login, or for another one, of a connection that it had taken before
OUTDATED = ("READONLY", "MASTERDOWN", "NOAUTH")
TLS_PIECE_BYTES = 16 * 1024  # what TLS sends at once, and with it a call of `send`


class Connection:
    """One socket. Used by one thread at a time; only `abort` may be called by another.

    Everything ends by `deadline`, a `time.monotonic()` value that the user sets before each use. Without TLS
    the kernel keeps the time, so that a value of megabytes takes one call each way: every return from a call
    has to wait for the interpreter's lock, behind the engine.
    """

    def __init__(self, raw: socket.socket, host: str, tls: ssl.SSLContext | None, deadline: float) -> None:
        self.deadline = deadline
        self.is_fresh = True
        self.is_outdated = False  # its server has said that it is not the one to ask any more
        self._socket: socket.socket = raw
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                raw.settimeout(self._seconds_left())
                self._socket = tls.wrap_socket(raw, server_hostname=host)
                self._reader = ReplyReader(self._recv_into_by_tls)
            else:
                raw.settimeout(None)
                self._reader = ReplyReader(self._recv_into, self._recv_all)
        except BaseException:
            raw.close()
            raise

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send all of `buffers` without joining them."""
        left = [memoryview(buffer) for buffer in buffers if len(buffer)]
        if isinstance(self._socket, ssl.SSLSocket):
            while left:  # not `sendall`: it would give each piece all of the time
                self._socket.settimeout(self._seconds_left())
                drop(left, self._socket.send(left[0][:TLS_PIECE_BYTES]))
            return
        while left:
            self._limit(socket.SO_SNDTIMEO)
            drop(left, in_time(lambda: self._socket.sendmsg(left)))

    def read(self) -> Reply:
        """Return the next reply."""
        reply = self._reader.read()
        if isinstance(reply, ErrorReply):
            self._note(reply)
        return reply

    def read_into(
        self, buffers: Sequence[memoryview], listener: Listener | None = None
    ) -> int | ErrorReply | None:
        """Receive the next reply, a value, into `buffers`."""
        length = self._reader.read_into(buffers, listener)
        if isinstance(length, ErrorReply):
            self._note(length)
        return length

    def _note(self, error: ErrorReply) -> None:
        self.is_outdated |= error.code in OUTDATED

    def abort(self) -> None:
        """Break the connection off; a thread that waits in it gets an error at once."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it was gone already

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _recv_into(self, target: memoryview) -> int:
        self._limit(socket.SO_RCVTIMEO)
        return in_time(lambda: self._socket.recv_into(target))

    def _recv_all(self, buffers: Sequence[memoryview]) -> int:
        self._limit(socket.SO_RCVTIMEO)
        return in_time(lambda: self._socket.recvmsg_into(buffers, 0, socket.MSG_WAITALL)[0])

    def _recv_into_by_tls(self, target: memoryview) -> int:
        self._socket.settimeout(self._seconds_left())
        return self._socket.recv_into(target)

    def _limit(self, option: int) -> None:
        microseconds = max(1, int(self._seconds_left() * 1_000_000))
        self._socket.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(*divmod(microseconds, 1_000_000)))

    def _seconds_left(self) -> float:
        return seconds_left(self.deadline)


def in_time(transfer: Callable[[], int]) -> int:
    """Let a blocking socket transfer something, in the time that `SO_RCVTIMEO` or `SO_SNDTIMEO` gives it."""
    try:
        return transfer()
    except BlockingIOError as error:
        raise TimeoutError("timed out") from error


class Node:
    """A server and the idle connections to it. Connects when first used. Used by many threads at once."""

    def __init__(self, address: L2Address, credentials: CredentialSource, trust: Trust | None) -> None:
        self.address = address
        self._credentials = credentials
        self._trust = trust
        self._places = Places(address)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._live: set[Connection] = set()
        self._is_closed = False
        self.circuit = Circuit()
        self.room = Circuit()  # closed while it takes values

    def call(self, exchange: Callable[[Connection], T], timeout_seconds: float) -> T:
        """Let `exchange` use a connection and return what it returns.

        An idle connection that turns out to be gone is replaced, once. After any error the connection is
        closed before this raises, so nothing that `exchange` handed over is written to any more.

        Raises:
            TierUnavailableError: no connection, or no complete answer within the time.
            TierProtocolError: what `exchange` raises.
        """
        deadline = time.monotonic() + timeout_seconds
        try:
            while True:
                connection = self._borrow(deadline)
                was_fresh, connection.is_fresh = connection.is_fresh, False
                try:
                    result = exchange(connection)
                except BaseException as error:
                    self._discard(connection)
                    self._drop_idle()
                    if was_fresh or isinstance(error, TimeoutError) or not isinstance(error, OSError):
                        raise
                    continue
                self._give_back(connection)
                return result
        except OSError as error:
            raise self._unavailable(error, timeout_seconds) from error

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that nobody uses."""
        return bool(self._idle)

    def start(
        self,
        request: Sequence[Buffer],
        read: Callable[[Connection], T],
        timeout_seconds: float,
        connect_seconds: float,
    ) -> Callable[[], T]:
        """Send now what `call` would; the function that this returns reads, and must be called.

        So several servers work at the same time for one thread. Errors come from that function. A connection
        that is made takes `connect_seconds` at most: meanwhile the others wait.
        """
        begin = time.monotonic()
        deadline = begin + timeout_seconds

        def whole(connection: Connection) -> T:
            connection.send(request)
            return read(connection)

        def again() -> T:
            return self.call(whole, deadline - time.monotonic())

        try:
            connection = self._borrow(min(deadline, begin + connect_seconds))
        except (OSError, TierError) as error:
            problem = error if isinstance(error, TierError) else self._unavailable(error, connect_seconds)

            def refuse() -> T:
                raise problem

            return refuse
        connection.deadline = deadline
        was_fresh, connection.is_fresh = connection.is_fresh, False
        try:
            connection.send(request)
        except OSError:
            self._discard(connection)
            return again

        def finish() -> T:
            # another server may have used up the time: what this one has answered meanwhile is taken
            connection.deadline = max(deadline, time.monotonic() + GRACE_SECONDS)
            try:
                result = read(connection)
            except BaseException as error:
                self._discard(connection)
                if not isinstance(error, OSError):
                    raise
                if was_fresh or isinstance(error, TimeoutError):
                    raise self._unavailable(error, timeout_seconds) from error
                self._drop_idle()
                return again()
            self._give_back(connection)
            return result

        return finish

    def retire(self) -> None:
        """Close each connection as soon as it is not in use."""
        with self._lock:
            self._is_closed = True
        self._drop_idle()

    def close(self) -> None:
        """Break off everything; calls fail from now on."""
        with self._lock:
            self._is_closed = True
            live = list(self._live)
        for connection in live:
            connection.abort()
        self._drop_idle()

    def _unavailable(self, error: OSError, timeout_seconds: float) -> TierUnavailableError:
        where = f"{self.address.host}:{self.address.port}"
        return TierUnavailableError(f"{where}: {said(error)} (within {timeout_seconds:.3g} s)")

    def _borrow(self, deadline: float) -> Connection:
        with self._lock:
            if self._is_closed:
                raise TierUnavailableError("L2 is closed")
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            connection.deadline = deadline
            return connection
        credentials = self._credentials.get(seconds_left(deadline))
        tls = self._trust.context() if self._trust else None
        connection = Connection(self._places.connect(deadline), self.address.host, tls, deadline)
        with self._lock:
            self._live.add(connection)
        try:
            if credentials is not None:
                user = [credentials.username.encode()] if credentials.username else []
                self._greet(connection, b"AUTH", *user, credentials.password.encode())
            if self.address.database:
                self._greet(connection, b"SELECT", b"%d" % self.address.database)
        except BaseException:
            self._discard(connection)
            raise
        return connection

    def _greet(self, connection: Connection, *parts: bytes) -> None:
        connection.send([command(*parts)])
        reply = connection.read()
        if reply != b"OK":
            self._credentials.forget()
            code = reply.code if isinstance(reply, ErrorReply) else "another reply than OK"
            raise TierUnavailableError(f"L2 refused {parts[0].decode()}: {code}")

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._is_closed and not connection.is_outdated:
                self._idle.append(connection)
                return
        self._discard(connection)
        if connection.is_outdated:
            self._drop_idle()

    def _discard(self, connection: Connection) -> None:
        with self._lock:
            self._live.discard(connection)
        connection.close()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self._discard(connection)
