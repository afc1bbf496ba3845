"""L2 as the engine's scheduler sees it:

nothing here waits, nothing here raises, and nothing here knows vLLM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hypertier.tier.gate import Gate
from hypertier.tier.lookups import Verdicts
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import Mover, News, Slot
from hypertier.tier.transfers import FinishedJob
from hypertier.tier.upkeep import Upkeep

SAMPLE_CHUNKS = 4  # as many as are loaded at once


@dataclass(frozen=True)
class Announcement:
    """Chunks that L2 has come to hold, or holds no more."""

    keys: tuple[bytes, ...]
    is_removal: bool


class L2Cache:
    """Lookups, loads and stores of chunks, by key. What takes time is done by the mover.

    A failing L2 is a miss. While it fails, requests are told so at once; a background probe finds out when it
    is back, so that its absence costs one deadline, not one per request.

    An L2 slower than computing is a miss, too. `gate` learns here what loads take, and what computing takes:
    the time from when a request is scheduled to when its first chunks are stored.
    """

    def __init__(
        self,
        mover: Mover,
        verdicts: Verdicts,
        counters: Counters,
        gate: Gate | None = None,
        clock: Callable[[], float] = time.monotonic,
        upkeep: Upkeep | None = None,
        announces: bool = False,
    ) -> None:
        self._upkeep = upkeep
        self._announcements: list[Announcement] | None = [] if announces else None
        self._mover = mover
        self._verdicts = verdicts
        self._counters = counters
        self._gate = gate or Gate(clock=clock)
        self._clock = clock
        self._scheduled_at: dict[str, float] = {}
        self._finished: list[FinishedJob] = []
        self._stored: tuple[bytes, ...] = ()  # last, so that L2 holds them, whatever requests ask for
        self._num_awaited = 0  # lookups under way that requests wait for
        self._has_news = True  # there may be some: asked for once a step, not once a chunk

    @property
    def is_up(self) -> bool:
        """Whether L2 is asked: its last answer was one."""
        return self._mover.is_up

    @property
    def gate(self) -> Gate:
        """Whether L2 is worth asking."""
        return self._gate

    def warm_up(self) -> None:
        """Connect in the background, before the first request needs it."""
        self._mover.probe([])

    def lookup(self, request_id: str, key: bytes) -> bool | None:
        """Tell whether L2 holds a chunk; None means to ask again later, which ends by the deadline."""
        if self._has_news:
            self._note_news()
        if not self._mover.is_up:
            self._num_awaited = 0
            self._verdicts.refuse(request_id, key)
            self._counters.add("circuit_open")
            if self._mover.may_try:
                self._mover.probe([key])
            return False
        if not self._gate.is_open:
            self._verdicts.refuse(request_id, key)
            self._counters.add("lookups_gated")
            if self._gate.take_sample():
                self._mover.sample(list(self._stored) or [key])
            return False
        return self._verdicts.ask(request_id, key, self._gate.min_chunks)

    def flush(self) -> None:
        """Ask L2 about what was looked up since the last call, in one round trip."""
        batch = self._verdicts.take_batch()
        if batch:
            self._num_awaited += 1
            self._mover.probe(batch)
        self._note_news()
        self._has_news = True

    def load(self, job_id: int, keys: Sequence[bytes], slots: Sequence[Slot]) -> None:
        """Fetch chunks straight into their slots. The job's outcome comes with `take_finished`."""
        self._mover.load(job_id, keys, slots, self._gate.patience)

    def note_scheduled(self, request_ids: Iterable[str], preempted: Iterable[str] = ()) -> None:
        """Requests begin to be computed, from what was loaded on; others were put off, and count no more."""
        now = self._clock()
        for request_id in request_ids:
            self._scheduled_at[request_id] = now
        for request_id in preempted:
            self._scheduled_at.pop(request_id, None)

    def store(self, job_id: int, keys: Sequence[bytes], slots: Sequence[Slot], request_id: str = "") -> None:
        """Write chunks that were just computed from their slots, as far as L2 lacks them and the backlog
        allows.
        """
        scheduled_at = self._scheduled_at.pop(request_id, None)
        if scheduled_at is not None and keys:
            self._gate.observe_compute(len(keys), self._clock() - scheduled_at)
        lacking = [
            (key, slot)
            for key, slot in zip(keys, slots, strict=True)
            if not self._verdicts.is_known_present(key)
        ]
        self._counters.add("stores_skipped", len(keys) - len(lacking))
        if self._upkeep is not None:
            admitted = [pair for pair in lacking if self._upkeep.admits(pair[0])]
            self._counters.add("stores_over_quota", len(lacking) - len(admitted))
            lacking = admitted
        self._mover.store(job_id, [key for key, _ in lacking], [slot for _, slot in lacking])

    def take_finished(self) -> list[FinishedJob]:
        """Return the jobs that finished since the last call; what failed to load is a miss from now on."""
        self._note_news()
        finished, self._finished = self._finished, []
        return finished

    def note_held(self, keys: Iterable[bytes]) -> None:
        """The GPU or L1 holds these chunks and uses them: L2 is to keep them, too."""
        if self._upkeep is not None:
            self._upkeep.used(keys)

    def take_announcements(self) -> list[Announcement]:
        """Return what L2 has come to hold, and what it turned out to lack, since the last call."""
        taken: list[Announcement] = []
        if self._announcements is not None:
            taken, self._announcements = self._announcements, []
        return taken

    def forget_request(self, request_id: str) -> None:
        """A request ended."""
        self._verdicts.forget_request(request_id)
        self._scheduled_at.pop(request_id, None)

    def drain(self) -> None:
        """Wait until no job touches a slot any more."""
        self._mover.drain()

    def close(self, timeout_seconds: float) -> bool:
        """End the mover; returns whether it ended, so that no slot is touched any more."""
        if self._upkeep is not None:
            self._upkeep.close(timeout_seconds)
        return self._mover.close(timeout_seconds)

    def _note_news(self) -> None:
        self._has_news = False
        news = self._mover.take_news()
        if news is not None:
            self._take_in(news)
        if self._upkeep is not None and self._upkeep.has_gone:
            gone = tuple(self._upkeep.take_gone())
            for key in gone:
                self._verdicts.resolve(key, False)
            self._announce(gone, is_removal=True)

    def _take_in(self, news: News) -> None:
        for key, found in news.answers:
            self._verdicts.resolve(key, found)
            if not found and key in self._stored:
                self._stored = tuple(each for each in self._stored if each != key)
        for seconds in news.lookup_seconds[: self._num_awaited]:
            self._num_awaited -= 1
            self._gate.observe_lookup(seconds)
        for num_chunks, seconds in news.samples:
            self._gate.observe_sample(num_chunks, seconds)
        for job in news.finished:
            if job.is_load and job.moved:
                self._gate.observe_load(len(job.moved), job.seconds)
            elif job.is_given_up:
                self._gate.observe_load(1, job.seconds, num_useful=0)
            elif job.is_load:
                self._gate.observe_failure(job.seconds)
            elif job.moved and not job.is_load:
                self._stored = (*self._stored, *job.moved)[-SAMPLE_CHUNKS:]
                if self._gate.take_first_sample():
                    self._mover.sample(list(self._stored))
            if job.is_given_up:
                self._counters.add("loads_given_up")
            for key in job.failed if job.is_load else job.moved:
                self._verdicts.resolve(key, not job.is_load)
            self._follow_up(job)
        self._finished += news.finished

    def _follow_up(self, job: FinishedJob) -> None:
        if self._upkeep is not None:
            if job.is_load:
                self._upkeep.used(job.moved)
            else:
                self._upkeep.stored(job.moved)
                self._upkeep.abandoned(job.failed)
        self._announce(job.failed if job.is_load else job.moved, is_removal=job.is_load)

    def _announce(self, keys: tuple[bytes, ...], *, is_removal: bool) -> None:
        if keys and self._announcements is not None:
            self._announcements.append(Announcement(keys, is_removal))
