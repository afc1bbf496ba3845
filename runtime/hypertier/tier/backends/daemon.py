"""The HTTP side of HyperPod's node daemon."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar
from urllib.parse import quote

from hypertier.errors import TierError, TierPartError, TierProtocolError, TierUnavailableError
from hypertier.tier.address import L2Address
from hypertier.tier.backends.backend import Buffer
from hypertier.tier.backends.connecting import seconds_left
from hypertier.tier.backends.segment import Identity, Piece

T = TypeVar("T")
Answer = tuple[int, bytes]  # status and body

BUCKET = "hypertier"  # a bucket of its own: other clients' values have another layout
MOST_PIECES = 65_536  # 256 MiB in pages
LARGEST_ANSWER_BYTES = 64 * MOST_PIECES
NOWHERE = Identity(0, 0)
GRACE_SECONDS = 0.005
MISSES = (404, 504)  # it has no such value; it had none until the wait was over


@dataclass(frozen=True)
class Lease:
    """A value's place in shared memory, promised until `expires_at`, a time of the client's clock."""

    id: str
    pieces: tuple[Piece, ...]
    segment: Identity = NOWHERE
    expires_at: float = 0.0

    @property
    def num_bytes(self) -> int:
        """The length of the value."""
        return sum(piece.length for piece in self.pieces)

    def held(self, segment: Identity, expires_at: float) -> Lease:
        """The lease with what the client knows about it."""
        return replace(self, segment=segment, expires_at=expires_at)


def parse_lease(body: bytes) -> Lease:
    """Read `{"id": "...", "offsets": [{"offset": 0, "len": 4096}, ...]}`.

    Raises:
        TierProtocolError: it is something else.
    """
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    match answer:
        case {"id": str(lease_id), "offsets": list(places)} if (
            0 < len(lease_id) <= 256 and len(places) <= MOST_PIECES
        ):
            pieces = [piece_of(place) for place in places]
            if all(pieces):
                return Lease(lease_id, tuple(piece for piece in pieces if piece))
    raise TierProtocolError(f"the daemon answered {body[:64]!r} where a lease was expected")


def piece_of(place: object) -> Piece | None:
    """Read one place, None if it is none."""
    match place:
        case {"offset": int(offset), "len": int(length)} if offset >= 0 and length >= 0:
            return Piece(offset, length)
    return None


@dataclass(frozen=True)
class Request:
    """One request to the daemon."""

    method: str
    path: str
    body: tuple[Buffer, ...] = ()
    body_bytes: int = 0


class Daemon:
    """The daemon at an address. Connects when first used, keeps connections. Used by many threads."""

    def __init__(self, address: L2Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._is_closed = False

    def put(self, key: bytes, buffers: Sequence[Buffer], timeout_seconds: float) -> None:
        """Write a value; one that is there already stays.

        Raises:
            TierUnavailableError: it was not written.
        """
        length = sum(map(len, buffers))
        status, _ = self._ask(Request("PUT", value_path(key), tuple(buffers), length), timeout_seconds)
        if status not in (200, 409):
            raise TierUnavailableError(f"the daemon answered a PUT with {status}")

    def lease_many(
        self, keys: Sequence[bytes], wait_ms: int, ttl_seconds: int, timeout_seconds: float
    ) -> list[Lease | TierError | None]:
        """Ask for leases on several values at once; tells for each key its lease, None for no value, or why
        there is no answer: those that were granted are the caller's to keep, whatever became of the others.
        """
        query = f"leases?timeout_ms={wait_ms}&ttl_s={ttl_seconds}"
        requests = [Request("POST", f"{value_path(key)}/{query}") for key in keys]
        return [read_lease(answer) for answer in self._exchange(requests, timeout_seconds)]

    def release(self, lease: Lease, timeout_seconds: float) -> None:
        """Give a lease back."""
        self._ask(Request("POST", f"/v1/leases/{quote(lease.id, safe='')}/release"), timeout_seconds)

    def close(self) -> None:
        """Give up all idle connections."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _ask(self, request: Request, timeout_seconds: float) -> Answer:
        """Send one request and return its answer, or raise what came in its place."""
        (answer,) = self._exchange([request], timeout_seconds)
        if isinstance(answer, TierError):
            raise answer
        return answer

    def _exchange(self, requests: Sequence[Request], timeout_seconds: float) -> list[Answer | TierError]:
        """Send all requests, each on a connection of its own, then read all answers, or why there is none.

        One whose connection turns out to be gone is sent again on a new one, alone: a lease that is asked for
        twice stays with the daemon, unused, until it expires.
        """
        deadline = time.monotonic() + timeout_seconds
        connections = self._borrow(len(requests))
        answers = attempt(requests, connections, deadline)
        lost = [place for place, answer in enumerate(answers) if answer is None]
        for place in lost:
            connections[place] = self._connect()
        again = attempt([requests[place] for place in lost], [connections[place] for place in lost], deadline)
        for place, answer in zip(lost, again, strict=True):
            answers[place] = answer
        told: list[Answer | TierError] = []
        usable: list[http.client.HTTPConnection] = []
        for connection, answer in zip(connections, answers, strict=True):
            if isinstance(answer, tuple):
                usable.append(connection)
            told.append(answer if isinstance(answer, tuple) else self._problem(answer))
        self._give_back(usable)
        return told

    def _problem(self, error: Exception | None) -> TierError:
        """Why there is no answer, as an error of ours."""
        if isinstance(error, TierError):
            return error
        where = f"{self._address.host}:{self._address.port}"
        return TierUnavailableError(f"{where}: {type(error).__name__}: {error}")

    def _give_back(self, connections: Sequence[http.client.HTTPConnection]) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.extend(connections)
                return
        for connection in connections:
            connection.close()

    def _borrow(self, count: int) -> list[http.client.HTTPConnection]:
        with self._lock:
            if self._is_closed:
                raise TierUnavailableError("L2 is closed")
            reused = [self._idle.pop() for _ in range(min(count, len(self._idle)))]
        return [*reused, *(self._connect() for _ in range(count - len(reused)))]

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._address.host, self._address.port)


def value_path(key: bytes) -> str:
    """Where a value is."""
    return f"/v1/kv/{BUCKET}/{quote(key, safe='')}"


def read_lease(answer: Answer | TierError) -> Lease | TierError | None:
    """The lease in an answer, None where there is no value, or what is wrong with it."""
    if isinstance(answer, TierError):
        return answer
    status, body = answer
    if status in MISSES:
        return None
    if status != 200:  # it is there, and may have others
        return TierPartError(f"the daemon answered a lease with {status}")
    try:
        return parse_lease(body)
    except TierProtocolError as error:
        return error


def attempt(
    requests: Sequence[Request], connections: Sequence[http.client.HTTPConnection], deadline: float
) -> list[Answer | Exception | None]:
    """Send all requests, then read all answers: each, or what went wrong, after which its connection is
    closed; None where a connection, used before, is gone by now.
    """
    are_used = [connection.sock is not None for connection in connections]

    def on(place: int, step: Callable[[], T]) -> T | Exception | None:
        try:
            return step()
        except (OSError, http.client.HTTPException, TierError) as error:
            connections[place].close()
            is_gone = isinstance(error, ConnectionError | http.client.BadStatusLine)
            return None if is_gone and are_used[place] else error

    places = range(len(requests))
    sent = [on(i, partial(send, connections[i], requests[i], deadline)) for i in places]
    return [
        on(i, partial(read, connections[i], deadline)) if problem is True else problem
        for i, problem in enumerate(sent)
    ]


def send(connection: http.client.HTTPConnection, request: Request, deadline: float) -> Literal[True]:
    """Send a request, its body as it lies; returns True.

    A daemon may answer before it has read the body, that a value is there already, and hang up.
    """
    connection.timeout = seconds_left(deadline)
    if connection.sock is not None:
        connection.sock.settimeout(connection.timeout)
    connection.putrequest(request.method, request.path, skip_accept_encoding=True)
    connection.putheader("Content-Length", str(request.body_bytes))
    connection.endheaders()
    with suppress(BrokenPipeError, ConnectionResetError):
        for part in request.body:
            connection.send(part)
    return True


def read(connection: http.client.HTTPConnection, deadline: float) -> tuple[int, bytes]:
    """Read an answer's status and body. One that has come by the deadline is taken, also when another one
    used up the time.
    """
    connection.sock.settimeout(max(GRACE_SECONDS, deadline - time.monotonic()))
    response = connection.getresponse()
    body = response.read(LARGEST_ANSWER_BYTES + 1)
    if len(body) > LARGEST_ANSWER_BYTES:
        raise TierProtocolError("the daemon's answer is longer than any lease")
    return response.status, body
