"""Hearing every engine's KV events: one subscription each, gaps filled by replay, or else all forgotten.

A batch is published with a number, one more than the last; an engine keeps its latest batches and sends them
again when asked, the end marked by the number -1
(https://github.com/vllm-project/vllm/blob/main/vllm/distributed/kv_events.py, read 2026-12-01).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import zmq
import zmq.asyncio

from hypertier.errors import KvEventError
from hypertier.router.discovery.addresses import Address
from hypertier.router.kv.kv_events import Event, decode
from hypertier.router.process.stamps import Complaint
from hypertier.router.process.tasks import Tasks
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State

log = logging.getLogger("hypertier.router")

QUIET_SECONDS = 10.0
"""So long without a batch, the engine is asked whether there was one: a dead subscription is silent, too."""
REPLAY_SECONDS = 5.0
RETRY_SECONDS = 2.0
MAX_BATCH_BYTES = 64 * 2**20
MAX_QUEUED_BATCHES = 10_000
END = b"\xff" * 8


class Place:
    """Follows the batches of one engine; pure. `expected` is the number of the next one."""

    def __init__(self) -> None:
        self.expected = 0
        self._seconds = -math.inf

    def check(self, number: int, seconds: float) -> str:
        """What a batch of that number and time is: `next`, `gap`, `old`, or `restart`.

        Old ones come twice, by replay and by subscription. A number that begins again later is another
        process.
        """
        if number == self.expected:
            return "next"
        if number > self.expected:
            return "gap"
        return "restart" if seconds > self._seconds else "old"

    def take(self, number: int, seconds: float) -> None:
        """This batch was applied, and all before it."""
        self.expected = number + 1
        self._seconds = max(self._seconds, seconds)


class KvStreams:
    """Applies what engines say by `apply`; `hear` is told of one that is heard, `forget` of one that is not.

    A replica is `in_step` as long as all its events since its start, or since its oldest kept batch, were
    heard. `events_of` tells where an engine publishes; it takes replays on the port after that. `resyncs`
    counts by cause: `gap`, `restart`, `silent`, `malformed`, `socket`.
    """

    def __init__(
        self,
        replicas: ReplicaSet,
        *,
        events_of: Callable[[Replica], Address],
        apply: Callable[[Replica, Event], None],
        hear: Callable[[Replica], None],
        forget: Callable[[Replica], None],
        quiet_seconds: float = QUIET_SECONDS,
        replay_seconds: float = REPLAY_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        failures: Counter[str] | None = None,
    ) -> None:
        self.in_step: set[Replica] = set()
        self.num_batches = 0
        self.resyncs: Counter[str] = Counter()
        self._events_of = events_of
        self._apply = apply
        self._hear_from_now = hear
        self._forget = forget
        self._quiet_seconds = quiet_seconds
        self._replay_seconds = replay_seconds
        self._retry_seconds = retry_seconds
        self._context: zmq.asyncio.Context | None = None
        self._tasks: Tasks[Replica] = Tasks("hearing of KV events", failures)
        replicas.watch(self._changed)

    async def stop(self) -> None:
        """Hear nobody any more."""
        for replica in self._tasks.keys:
            self._lose(replica)
        await self._tasks.stop()
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None

    def _changed(self, replica: Replica, reason: str) -> None:
        """A replica that is healthy is heard; one that was not may have restarted and lost all."""
        if replica.state is State.HEALTHY:
            self._tasks.start(replica, lambda: self._run(replica))
        else:
            self._leave(replica)

    def _leave(self, replica: Replica) -> None:
        if self._tasks.end(replica):
            self._lose(replica)

    def _lose(self, replica: Replica) -> None:
        self.in_step.discard(replica)
        self._forget(replica)

    async def _run(self, replica: Replica) -> None:
        complaint = Complaint(log.warning, log.info)
        while True:
            try:
                await self._hear(replica, complaint)
            except (KvEventError, zmq.ZMQError) as error:
                cause = error.cause if isinstance(error, KvEventError) else "socket"
                complaint.failed(f"KV events of {replica.url} begin anew ({error})", cause)
                self.resyncs[cause] += 1
                self._lose(replica)
            except Exception:
                self._lose(replica)
                raise
            await asyncio.sleep(self._retry_seconds)

    async def _hear(self, replica: Replica, complaint: Complaint) -> None:
        """From nothing known to all heard, until something can't be: raises KvEventError."""
        address = self._events_of(replica)
        subscription = self._socket(zmq.SUB, address)
        try:
            subscription.subscribe(b"")
            place = Place()
            await self._replay(replica, place, is_first=True)
            self.in_step.add(replica)
            self._hear_from_now(replica)
            while True:
                if not await subscription.poll(int(self._quiet_seconds * 1000)):
                    await self._replay(replica, place)
                    complaint.mended(f"KV events of {replica.url} are heard again")
                    continue
                number, payload = _frames(await subscription.recv_multipart())
                seconds, events = decode(payload)
                what = place.check(number, seconds)
                if what == "gap":
                    await self._replay(replica, place)
                    what = place.check(number, seconds)
                if what == "restart":
                    raise KvEventError("restart", f"batch {number} came after {place.expected - 1}")
                if what == "gap":
                    raise KvEventError("gap", f"batches {place.expected} to {number - 1} are lost")
                if what == "next":
                    await self._take(replica, place, number, seconds, events)
                    complaint.mended(f"KV events of {replica.url} are heard again")
        finally:
            subscription.close(linger=0)

    async def _replay(self, replica: Replica, place: Place, *, is_first: bool = False) -> None:
        """Ask for all batches from `place` on and apply them; raises KvEventError where some are lost.

        The first time the engine may have kept its latest ones alone: it is then known in part.
        """
        address = self._events_of(replica)
        asked = self._socket(zmq.DEALER, Address(address.host, address.port + 1))
        try:
            await asked.send_multipart([b"", place.expected.to_bytes(8, "big")])
            while True:
                if not await asked.poll(int(self._replay_seconds * 1000)):
                    raise KvEventError("silent", f"no replay from port {address.port + 1}")
                frames = await asked.recv_multipart()
                if len(frames) != 4 or frames[0]:
                    raise KvEventError("malformed", f"a replay of {len(frames)} parts")
                if frames[2] == END:
                    return
                number, payload = _frames(frames[1:])
                seconds, events = decode(payload)
                if place.check(number, seconds) == "gap" and not (is_first and place.expected == 0):
                    raise KvEventError("gap", f"batches {place.expected} to {number - 1} are lost")
                if number >= place.expected:
                    await self._take(replica, place, number, seconds, events)
        finally:
            asked.close(linger=0)

    async def _take(
        self, replica: Replica, place: Place, number: int, seconds: float, events: Iterable[Event]
    ) -> None:
        for event in events:
            self._apply(replica, event)
        place.take(number, seconds)
        self.num_batches += 1
        await asyncio.sleep(0)  # where batches are waiting, nothing above lets requests pass

    def _socket(self, kind: int, address: Address) -> zmq.asyncio.Socket:
        if self._context is None:
            self._context = zmq.asyncio.Context()
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_BATCH_BYTES)
        socket.setsockopt(zmq.RCVHWM, MAX_QUEUED_BATCHES)
        socket.setsockopt(zmq.LINGER, 0)
        if ":" in address.host:
            socket.setsockopt(zmq.IPV6, 1)
        try:
            socket.connect(f"tcp://{address}")
        except zmq.ZMQError:
            socket.close()
            raise
        return socket


def _frames(frames: Sequence[bytes]) -> tuple[int, bytes]:
    """Number and payload of a batch's three parts."""
    if len(frames) != 3 or len(frames[1]) != 8:
        raise KvEventError("malformed", f"a batch of {len(frames)} parts")
    return int.from_bytes(frames[1], "big"), frames[2]
