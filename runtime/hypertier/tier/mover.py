"""Lookups, loads and stores where they may take their time: on threads, behind circuits, counted."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from hypertier.errors import TierPartError, TierUnavailableError
from hypertier.tier.circuit import Circuit
from hypertier.tier.entries import Entries, Loaded
from hypertier.tier.entry import Flaw
from hypertier.tier.guard import Guard
from hypertier.tier.lookups import Prober
from hypertier.tier.metrics import Counters
from hypertier.tier.transfers import FinishedJob, Patience, Task, Transfers

T = TypeVar("T")

SAMPLE = -1  # the number of a job that is nobody's
SAMPLE_SECONDS = 1.0  # that it waits for the first chunk, and for each one more
Slot = Any  # a memoryview of a chunk's bytes, or what the mover's `slot_of` makes one of


@dataclass
class News:
    """What a mover has done since it was last asked."""

    answers: list[tuple[bytes, bool]] = field(default_factory=list)  # of lookups and samples
    finished: list[FinishedJob] = field(default_factory=list)
    lookup_seconds: list[float] = field(default_factory=list)
    samples: list[tuple[int, float]] = field(default_factory=list)  # chunks loaded, and seconds for all


def merge(into: News, news: News) -> None:
    """Append later news."""
    into.answers += news.answers
    into.finished += news.finished
    into.lookup_seconds += news.lookup_seconds
    into.samples += news.samples


class Mover(Protocol):
    """Works for `L2Cache`, which never waits for it but in `drain` and `close`. Raises nothing."""

    @property
    def is_up(self) -> bool:
        """Whether L2 is asked: its last answer was one."""
        ...

    @property
    def may_try(self) -> bool:
        """Whether it is time, while L2 is not up, for somebody to look whether it is back."""
        ...

    def probe(self, keys: list[bytes]) -> None:
        """Ask whether L2 holds chunks; with none, connect."""
        ...

    def sample(self, keys: list[bytes]) -> None:
        """Load chunks for nobody, to learn how long it takes."""
        ...

    def load(
        self, job_id: int, keys: Sequence[bytes], slots: Sequence[Slot], patience: Patience | None = None
    ) -> None:
        """Fetch chunks straight into their slots."""
        ...

    def store(self, job_id: int, keys: Sequence[bytes], slots: Sequence[Slot]) -> None:
        """Write chunks from their slots."""
        ...

    def take_news(self) -> News | None:
        """Return what was done since the last call; None is nothing."""
        ...

    def drain(self) -> None:
        """Wait until no job touches a slot any more."""
        ...

    def close(self, timeout_seconds: float) -> bool:
        """End; returns whether everything ended, so that no slot is touched any more."""
        ...


class ThreadMover:
    """A mover on threads of this process. Samples have their own: a slow one holds no load up.

    `on_change` is told when L2 stops answering and when it answers again, `on_news` when there is news; both
    by the thread that found out.
    """

    def __init__(
        self,
        entries: Entries,
        transfers: Transfers,
        counters: Counters,
        on_change: Callable[[str, Exception | None], None],
        *,
        new_circuit: Callable[[], Circuit] = Circuit,
        slot_of: Callable[[Slot], memoryview] = lambda slot: slot,
        on_news: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries = entries
        self._transfers = transfers
        self._samples = Transfers(transfers.num_threads, 0, clock, on_news)
        self._lost: deque[bytes] = deque()  # of samples, what L2 turned out to lack
        self._counters = counters
        self._reads = Guard("read", new_circuit(), counters, on_change)
        self._writes = Guard("write", new_circuit(), counters, on_change)
        self._slot_of = slot_of
        self._on_news = on_news
        self._clock = clock
        self._prober = Prober(self._probe, on_news, clock)

    @property
    def is_up(self) -> bool:
        """Whether L2 is asked: its last answer was one."""
        return self._reads.circuit.is_closed

    @property
    def may_try(self) -> bool:
        """Whether it is time to look whether L2 is back."""
        return self._reads.circuit.may_try

    @property
    def retry_at(self) -> float:
        """When that time comes, by `time.monotonic`; of no meaning while L2 is up."""
        return self._reads.circuit.retry_at

    def probe(self, keys: list[bytes]) -> None:
        """Ask whether L2 holds chunks; with none, connect."""
        self._prober.submit(keys)

    def sample(self, keys: list[bytes]) -> None:
        """Load chunks for nobody, side by side as for a request: one alone takes longer than its share."""
        num_bytes = self._entries.chunk_bytes

        def load(key: bytes, seconds: float) -> bool:
            slot = memoryview(bytearray(num_bytes))  # by the thread that loads: to clear it takes a while
            outcome = self._load(key, slot, seconds, SAMPLE_SECONDS)
            if outcome not in (Loaded.WHOLE, None):
                self._lost.append(key)
            return outcome is Loaded.WHOLE

        samples = [Task(key, num_bytes, partial(load, key)) for key in keys]
        self._samples.submit_load(SAMPLE, samples, Patience(SAMPLE_SECONDS, SAMPLE_SECONDS))

    def load(
        self, job_id: int, keys: Sequence[bytes], slots: Sequence[Slot], patience: Patience | None = None
    ) -> None:
        """Fetch chunks straight into their slots, as far as the patience lasts."""
        hurried_below = patience.first_seconds if patience else 0.0

        def load(key: bytes, slot: memoryview, seconds: float) -> bool:
            return self._load(key, slot, seconds, hurried_below) is Loaded.WHOLE

        views = [self._slot_of(slot) for slot in slots]
        self._transfers.submit_load(job_id, tasks(load, keys, views), patience)

    def store(self, job_id: int, keys: Sequence[bytes], slots: Sequence[Slot]) -> None:
        """Write chunks from their slots, as far as the backlog allows."""
        views = [self._slot_of(slot) for slot in slots]
        num_dropped = self._transfers.submit_store(job_id, tasks(self._store, keys, views))
        self._counters.add("stores_dropped", num_dropped)
        if num_dropped:
            self._on_news()

    def take_news(self) -> News:
        """Return what was done since the last call."""
        samples = self._samples.take_finished()
        held = [(key, True) for job in samples for key in job.moved]
        lost = [(key, False) for key in taken(self._lost)]
        return News(
            [*self._prober.take_answers(), *held, *lost],
            self._transfers.take_finished(),
            self._prober.take_seconds(),
            [(len(job.moved), job.seconds) for job in samples if job.moved],
        )

    def drain(self) -> None:
        """Wait until no job touches a slot any more."""
        self._transfers.drain()

    def close(self, timeout_seconds: float) -> bool:
        """End all connections and threads."""
        self._entries.close()
        self._samples.close(timeout_seconds)
        ended = self._transfers.close(timeout_seconds)
        self._prober.close(timeout_seconds)
        return ended

    def _probe(self, keys: Sequence[bytes]) -> Sequence[bool]:
        if not keys:
            self._reads.call(self._entries.warm_up, None)
            return []
        found = self._reads.call(lambda: self._entries.exist(keys), [False] * len(keys))
        self._counters.add("lookup_hits", sum(found))
        self._counters.add("lookup_misses", len(found) - sum(found))
        return found

    def _load(
        self, key: bytes, slot: memoryview, seconds: float, hurried_below: float
    ) -> Loaded | Flaw | None:
        """Load a chunk; None where L2 did not tell, or was not asked.

        A load that is given less than `hurried_below` seconds shows nothing about L2 when they are over; one
        that is refused before does.
        """
        if not self._reads.circuit.is_closed:
            self._counters.add("circuit_open")
            return None

        def load() -> Loaded | Flaw:
            begin = self._clock()
            try:
                return self._entries.load(key, slot, seconds)
            except TierUnavailableError as error:
                if seconds < hurried_below and self._clock() - begin >= seconds:
                    raise TierPartError(str(error)) from error
                raise

        outcome: Loaded | Flaw | None = self._reads.call(load, None)
        if outcome is Loaded.WHOLE:
            self._counters.add("read_bytes", len(slot))
        elif outcome is Loaded.ABSENT:
            self._counters.add("loads_absent")
        elif outcome is not None:
            self._counters.add("integrity_failures")
        return outcome

    def _store(self, key: bytes, slot: memoryview, seconds: float) -> bool:
        def store() -> bool:
            self._entries.store(key, slot)
            return True

        stored = self._writes.call(store, False)
        if stored:
            self._counters.add("write_bytes", len(slot))
        return stored


def tasks(
    move: Callable[[bytes, memoryview, float], bool], keys: Sequence[bytes], slots: Sequence[memoryview]
) -> list[Task]:
    """One for each chunk."""
    return [Task(key, len(slot), partial(move, key, slot)) for key, slot in zip(keys, slots, strict=True)]


def taken(queue: deque[T]) -> list[T]:
    """Empty a queue that another thread fills."""
    return [queue.popleft() for _ in range(len(queue))]
