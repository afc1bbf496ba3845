"""L2 as the engine's scheduler sees it:

nothing here waits, nothing here raises, and nothing here knows vLLM.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from hypertier.tier.circuit import Circuit
from hypertier.tier.entries import Entries, Loaded
from hypertier.tier.entry import Flaw
from hypertier.tier.gate import Gate
from hypertier.tier.guard import Guard
from hypertier.tier.lookups import Prober, Verdicts
from hypertier.tier.metrics import Counters
from hypertier.tier.transfers import FinishedJob, Task, Transfers


class L2Cache:
    """Lookups, loads and stores of chunks, by key.

    A failing L2 is a miss. While it fails, requests are told so at once; a background probe finds out when it
    is back, so that its absence costs one deadline, not one per request.

    An L2 slower than computing is a miss, too. `gate` learns here what loads take, and what computing takes:
    the time from when a request is scheduled to when its first chunks are stored.
    """

    def __init__(
        self,
        entries: Entries,
        verdicts: Verdicts,
        transfers: Transfers,
        counters: Counters,
        on_change: Callable[[str, Exception | None], None],
        new_circuit: Callable[[], Circuit] = Circuit,
        gate: Gate | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries = entries
        self._verdicts = verdicts
        self._transfers = transfers
        self._counters = counters
        self._reads = Guard("read", new_circuit(), counters, on_change)
        self._writes = Guard("write", new_circuit(), counters, on_change)
        self._gate = gate or Gate(clock=clock)
        self._clock = clock
        self._scheduled_at: dict[str, float] = {}
        self._lookup_seconds: deque[float] = deque()  # from the prober's thread
        self._sample_seconds: deque[float] = deque()  # from the sampler's thread
        self._prober = Prober(self._probe)
        self._sampler = Prober(self._load_samples)

    @property
    def is_up(self) -> bool:
        """Whether L2 is asked: its last answer was one."""
        return self._reads.circuit.is_closed

    @property
    def gate(self) -> Gate:
        """Whether L2 is worth asking."""
        return self._gate

    def warm_up(self) -> None:
        """Connect in the background, before the first request needs it."""
        self._prober.submit([])

    def lookup(self, request_id: str, key: bytes) -> bool | None:
        """Tell whether L2 holds a chunk; None means to ask again later, which ends by the deadline."""
        self._note_answers()
        if not self._reads.circuit.is_closed:
            self._verdicts.refuse(request_id, key)
            self._counters.add("circuit_open")
            if self._reads.circuit.may_try:
                self._prober.submit([key])
            return False
        if not self._gate.is_open:
            self._verdicts.refuse(request_id, key)
            self._counters.add("lookups_gated")
            if self._gate.take_sample():
                self._sampler.submit([key])
            return False
        return self._verdicts.ask(request_id, key, self._gate.min_chunks)

    def flush(self) -> None:
        """Ask L2 about what was looked up since the last call, in one round trip."""
        batch = self._verdicts.take_batch()
        if batch:
            self._prober.submit(batch)
        self._note_answers()

    def load(self, job_id: int, keys: Sequence[bytes], slots: Sequence[memoryview]) -> None:
        """Fetch chunks straight into their slots. The job's outcome comes with `take_finished`."""
        tasks = [
            Task(key, len(slot), partial(self._load, key, slot))
            for key, slot in zip(keys, slots, strict=True)
        ]
        self._transfers.submit_load(job_id, tasks)

    def note_scheduled(self, request_ids: Iterable[str], preempted: Iterable[str] = ()) -> None:
        """Requests begin to be computed, from what was loaded on; others were put off, and count no more."""
        now = self._clock()
        for request_id in request_ids:
            self._scheduled_at[request_id] = now
        for request_id in preempted:
            self._scheduled_at.pop(request_id, None)

    def store(
        self, job_id: int, keys: Sequence[bytes], slots: Sequence[memoryview], request_id: str = ""
    ) -> None:
        """Write chunks that were just computed from their slots, as far as L2 lacks them and the backlog
        allows.
        """
        scheduled_at = self._scheduled_at.pop(request_id, None)
        if scheduled_at is not None and keys:
            self._gate.observe_compute(len(keys), self._clock() - scheduled_at)
        tasks = [
            Task(key, len(slot), partial(self._store, key, slot))
            for key, slot in zip(keys, slots, strict=True)
            if not self._verdicts.is_known_present(key)
        ]
        self._counters.add("stores_skipped", len(keys) - len(tasks))
        self._counters.add("stores_dropped", self._transfers.submit_store(job_id, tasks))

    def take_finished(self) -> list[FinishedJob]:
        """Return the jobs that finished since the last call; what failed to load is a miss from now on."""
        finished = self._transfers.take_finished()
        for job in finished:
            if job.is_load:
                if job.moved:
                    self._gate.observe_load(len(job.moved), job.seconds)
                for key in job.failed:
                    self._verdicts.resolve(key, False)
            else:
                for key in job.moved:
                    self._verdicts.resolve(key, True)
        return finished

    def forget_request(self, request_id: str) -> None:
        """A request ended."""
        self._verdicts.forget_request(request_id)
        self._scheduled_at.pop(request_id, None)

    def drain(self) -> None:
        """Wait until no job touches a slot any more."""
        self._transfers.drain()

    def close(self, timeout_seconds: float) -> bool:
        """End all threads; returns whether they ended, so that no slot is touched any more."""
        ended = self._transfers.close(timeout_seconds)
        self._prober.close(timeout_seconds)
        self._sampler.close(timeout_seconds)
        return ended

    def _note_answers(self) -> None:
        for key, found in self._prober.take_answers():
            self._verdicts.resolve(key, found)
        while self._lookup_seconds:
            self._gate.observe_lookup(self._lookup_seconds.popleft())
        while self._sample_seconds:
            self._gate.observe_sample(1, self._sample_seconds.popleft())

    def _probe(self, keys: Sequence[bytes]) -> Sequence[bool]:
        if not keys:
            self._reads.call(self._entries.warm_up, None)
            return []
        begin = self._clock()
        found = self._reads.call(lambda: self._entries.exist(keys), [False] * len(keys))
        self._lookup_seconds.append(self._clock() - begin)
        self._counters.add("lookup_hits", sum(found))
        self._counters.add("lookup_misses", len(found) - sum(found))
        return found

    def _load_samples(self, keys: Sequence[bytes]) -> Sequence[bool]:
        """Load chunks for nobody, to learn how long it takes."""
        loaded = []
        for key in keys:
            begin = self._clock()
            loaded.append(self._load(key, memoryview(bytearray(self._entries.chunk_bytes))))
            if loaded[-1]:
                self._sample_seconds.append(self._clock() - begin)
        return loaded

    def _load(self, key: bytes, slot: memoryview) -> bool:
        if not self._reads.circuit.is_closed:
            self._counters.add("circuit_open")
            return False
        outcome: Loaded | Flaw | None = self._reads.call(lambda: self._entries.load(key, slot), None)
        if outcome is Loaded.WHOLE:
            self._counters.add("read_bytes", len(slot))
        elif outcome is Loaded.ABSENT:
            self._counters.add("loads_absent")
        elif outcome is not None:
            self._counters.add("integrity_failures")
        return outcome is Loaded.WHOLE

    def _store(self, key: bytes, slot: memoryview) -> bool:
        def store() -> bool:
            self._entries.store(key, slot)
            return True

        stored = self._writes.call(store, False)
        if stored:
            self._counters.add("write_bytes", len(slot))
        return stored
