"""Hearing every engine's KV events: one subscription each, gaps filled by replay, or else all forgotten.

A batch is published with a number, one more than the last; an engine keeps its latest batches and sends them
again when asked, the end marked by the number -1
(https://github.com/vllm-project/vllm/blob/main/vllm/distributed/kv_events.py, read 2026-12-01).

Numbers begin at 0 with each process, and nothing in a batch names the process: one that took the place of
another, and has told as much already, goes on like it. But its connections are others, and so are the
batches that it keeps. So with each new connection there is a replay before another batch is believed, of some
batches that were taken as well, which must be the same. Others found no more than the numbers
(https://github.com/llm-d/llm-d-router/pull/1887), and a name of the process is proposed
(https://github.com/vllm-project/vllm/pull/57789, both read 2026-12-03).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

import zmq
import zmq.asyncio

from hypertier.errors import KvEventError
from hypertier.router.discovery.addresses import Address
from hypertier.router.kv.kv_events import Cleared, Event, decode
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
MAX_SOCKETS = 65_000
"""libzmq allows 1,023 without being asked, and a replica takes three, and one more for a replay."""
NUM_COMPARED = 4
"""So many batches that were taken are asked for again, to see that they are the same."""
BLOCKS_A_TURN = 512
"""Of a batch, so many blocks are applied in one turn of the event loop: about a millisecond. One event is."""
END = b"\xff" * 8


class Place:
    """Follows the batches of one engine; pure. `expected` is the number of the next one.

    What is taken last is remembered, to know the process by.
    """

    def __init__(self) -> None:
        self.expected = 0
        self._seconds = -math.inf
        self._taken: deque[tuple[int, float]] = deque(maxlen=NUM_COMPARED)

    @property
    def compared_from(self) -> int:
        """The number of the first batch to ask for again."""
        return self._taken[0][0] if self._taken else self.expected

    def check(self, number: int, seconds: float) -> str:
        """What a batch of that number and time is: `next`, `gap`, `old`, or `restart`.

        Old ones come twice, by replay and by subscription. A number that begins again later is another
        process, and so is one that was taken with another time.
        """
        if number == self.expected:
            return "next"
        if number > self.expected:
            return "gap"
        for taken, at in self._taken:
            if taken == number:
                return "old" if seconds == at else "restart"
        return "restart" if seconds > self._seconds else "old"

    def take(self, number: int, seconds: float) -> None:
        """This batch was applied, and all before it."""
        self.expected = number + 1
        self._seconds = max(self._seconds, seconds)
        self._taken.append((number, seconds))

    def is_last(self, number: int) -> bool:
        """It is the last one that was taken."""
        return bool(self._taken) and self._taken[-1][0] == number


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
        subscription = self._socket(zmq.SUB)
        connections = subscription.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        try:
            _connect(subscription, address)
            subscription.subscribe(b"")
            place = Place()
            await self._replay(replica, place, is_first=True)
            self.in_step.add(replica)
            self._hear_from_now(replica)
            poller = zmq.asyncio.Poller()
            poller.register(subscription, zmq.POLLIN)
            poller.register(connections, zmq.POLLIN)
            while True:
                ready = dict(await poller.poll(int(self._quiet_seconds * 1000)))
                batch = await subscription.recv_multipart() if subscription in ready else None
                # A connection is told of before the first batch that came by it.
                is_another = await _is_connected_anew(connections)
                if is_another:
                    await self._replay(replica, place, compares=True, must_be_same=True)
                elif batch is None:
                    await self._replay(replica, place)
                if batch is None or is_another:
                    complaint.mended(f"KV events of {replica.url} are heard again")
                if batch is None:
                    continue
                number, payload = _frames(batch)
                seconds, events = decode(payload)
                what = place.check(number, seconds)
                if what == "gap":
                    await self._replay(replica, place, compares=True)
                    what = place.check(number, seconds)
                if what == "restart":
                    raise _restarted(number, place)
                if what == "gap":
                    raise KvEventError("gap", f"batches {place.expected} to {number - 1} are lost")
                if what == "next":
                    await self._take(replica, place, number, seconds, events)
                    complaint.mended(f"KV events of {replica.url} are heard again")
        finally:
            subscription.disable_monitor()
            connections.close(linger=0)
            subscription.close(linger=0)

    async def _replay(
        self,
        replica: Replica,
        place: Place,
        *,
        is_first: bool = False,
        compares: bool = False,
        must_be_same: bool = False,
    ) -> None:
        """Ask for all batches from `place` on and apply them; raises KvEventError where some are lost.

        The first time the engine may have kept its latest ones alone: it is then known in part. One that
        `compares` asks for some that were taken as well, and where it `must_be_same` the last must be there.
        """
        address = self._events_of(replica)
        first = place.compared_from if compares else place.expected
        is_known = not must_be_same or not place.expected
        asked = self._socket(zmq.DEALER)
        try:
            _connect(asked, Address(address.host, address.port + 1))
            await asked.send_multipart([b"", first.to_bytes(8, "big")])
            while True:
                if not await asked.poll(int(self._replay_seconds * 1000)):
                    raise KvEventError("silent", f"no replay from port {address.port + 1}")
                frames = await asked.recv_multipart()
                if len(frames) != 4 or frames[0]:
                    raise KvEventError("malformed", f"a replay of {len(frames)} parts")
                if frames[2] == END:
                    break
                number, payload = _frames(frames[1:])
                seconds, events = decode(payload)
                what = place.check(number, seconds)
                if what == "restart":
                    raise _restarted(number, place)
                if what == "gap" and not (is_first and place.expected == 0):
                    raise KvEventError("gap", f"batches {place.expected} to {number - 1} are lost")
                is_known = is_known or place.is_last(number)
                if number >= place.expected:
                    if not is_known:
                        break
                    await self._take(replica, place, number, seconds, events)
            if not is_known:
                raise KvEventError("restart", f"batch {place.expected - 1} is not there any more")
        finally:
            asked.close(linger=0)

    async def _take(
        self, replica: Replica, place: Place, number: int, seconds: float, events: Iterable[Event]
    ) -> None:
        num_blocks = 0
        for event in events:
            if num_blocks >= BLOCKS_A_TURN:
                num_blocks = 0
                await asyncio.sleep(0)
            self._apply(replica, event)
            num_blocks += 1 if isinstance(event, Cleared) else len(event.block_hashes)
        place.take(number, seconds)
        self.num_batches += 1
        await asyncio.sleep(0)  # where batches are waiting, nothing above lets requests pass

    def _socket(self, kind: int) -> zmq.asyncio.Socket:
        if self._context is None:
            self._context = zmq.asyncio.Context()
            self._context.set(zmq.MAX_SOCKETS, min(MAX_SOCKETS, self._context.get(zmq.SOCKET_LIMIT)))
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_BATCH_BYTES)
        socket.setsockopt(zmq.RCVHWM, MAX_QUEUED_BATCHES)
        socket.setsockopt(zmq.LINGER, 0)
        return socket


def _connect(socket: zmq.asyncio.Socket, address: Address) -> None:
    if ":" in address.host:
        socket.setsockopt(zmq.IPV6, 1)
    socket.connect(f"tcp://{address}")


async def _is_connected_anew(connections: zmq.asyncio.Socket) -> bool:
    """Whether any connection was told of since it was last asked."""
    is_anew = False
    while await connections.poll(0):
        await connections.recv_multipart()
        is_anew = True
    return is_anew


def _restarted(number: int, place: Place) -> KvEventError:
    return KvEventError("restart", f"batch {number} came anew after {place.expected - 1}")


def _frames(frames: Sequence[bytes]) -> tuple[int, bytes]:
    """Number and payload of a batch's three parts."""
    if len(frames) != 3 or len(frames[1]) != 8:
        raise KvEventError("malformed", f"a batch of {len(frames)} parts")
    return int.from_bytes(frames[1], "big"), frames[2]
