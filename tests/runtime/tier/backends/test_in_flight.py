"""How much a connection has under way at once, however much there is to move."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

import pytest
from fakes_tier import FixedNamespace, eventually

from hypertier.errors import TierError
from hypertier.tier.address import L2Address
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.credentials import FixedCredentials
from hypertier.tier.entries import Entries, stripe_sizes
from hypertier.tier.transfers import Task, Transfers

THREADS, STRIPE, SECONDS = 4, 64 * 1024, 20.0
CHUNK = memoryview(bytes(3 * STRIPE))
SIZES = stripe_sizes(len(CHUNK), STRIPE)
HEAD_BYTES = 200  # a command without its value


class SilentServer:
    """Takes what it is sent, by connection, and answers nothing."""

    def __init__(self) -> None:
        self.received: list[bytearray] = []
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self.received.append(bytearray())
                threading.Thread(target=self._take, args=(connection, self.received[-1]), daemon=True).start()

    def _take(self, connection: socket.socket, into: bytearray) -> None:
        with contextlib.suppress(OSError):
            while piece := connection.recv(1024 * 1024):
                into += piece


def load(entries: Entries, number: int, seconds: float) -> bool:
    with contextlib.suppress(TierError):
        entries.load(b"%036d" % number, memoryview(bytearray(len(CHUNK))))
    return False


def store(entries: Entries, number: int, seconds: float) -> bool:
    with contextlib.suppress(TierError):
        entries.store(b"%036d" % number, CHUNK)
    return False


@pytest.mark.parametrize(
    ("move", "command", "num_connections", "least_bytes"),
    [(load, b"GETEX", THREADS, 1), (store, b"SET", THREADS // 2, min(SIZES))],
    ids=["load", "store"],
)
def test_a_connection_has_one_value_under_way_and_there_are_as_many_as_threads(
    move: Callable[[Entries, int, float], bool], command: bytes, num_connections: int, least_bytes: int
) -> None:
    with SilentServer() as server:
        backend = RespBackend(L2Address("127.0.0.1", server.port), FixedCredentials())
        entries = Entries(
            backend,
            FixedNamespace(),
            chunk_bytes=len(CHUNK),
            ttl_seconds=60,
            lookup_timeout_seconds=SECONDS,
            io_timeout_seconds=SECONDS,
            stripe_bytes=STRIPE,
        )
        transfers = Transfers(THREADS, 2**30)
        tasks = [Task(b"%d" % number, len(CHUNK), partial(move, entries, number)) for number in range(32)]
        (transfers.submit_load if move is load else transfers.submit_store)(1, tasks)

        def all_wait() -> bool:
            received = list(server.received)
            return len(received) == num_connections and all(len(each) >= least_bytes for each in received)

        assert eventually(all_wait)
        under_way = [bytes(each) for each in server.received]
        backend.close()
        assert transfers.close(SECONDS)

    assert [each.count(b"$%d\r\n%s\r\n" % (len(command), command)) for each in under_way] == (
        [1] * num_connections
    )
    assert max(map(len, under_way)) <= (max(SIZES) if move is store else 0) + HEAD_BYTES
    assert len(server.received) == num_connections
