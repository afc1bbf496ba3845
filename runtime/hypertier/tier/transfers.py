"""Moving chunks between L1's slots and L2: a few threads, loads before stores, stores bounded in bytes."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Task:
    """One chunk to move. `run`, told how many seconds it may take, returns whether it arrived; it must not
    raise.
    """

    key: bytes
    num_bytes: int
    run: Callable[[float], bool]


class Patience(NamedTuple):
    """How long a load may take: `first_seconds`, and as much for each chunk that has arrived as computing one
    takes. A load that is given up then has cost no more than `first_seconds` over computing all of it.
    """

    first_seconds: float
    seconds_per_chunk: float

    def seconds_left(self, num_arrived: int, seconds_passed: float) -> float:
        """What is left for the next chunk, which is worth as much time as computing it takes."""
        first = max(self.first_seconds, self.seconds_per_chunk)
        return first + num_arrived * self.seconds_per_chunk - seconds_passed


class FinishedJob(NamedTuple):
    """A job none of whose tasks runs any more."""

    job_id: int
    is_load: bool
    moved: tuple[bytes, ...]
    failed: tuple[bytes, ...]
    num_bytes: int
    seconds: float
    is_given_up: bool = False  # it took longer than its patience


@dataclass
class _Job:
    job_id: int
    is_load: bool
    num_open: int
    started_at: float
    patience: Patience | None
    is_given_up: bool = False
    moved: list[bytes] = field(default_factory=list)
    failed: list[bytes] = field(default_factory=list)
    num_bytes: int = 0


class Transfers:
    """Runs jobs of tasks. A job is finished when its last task has returned, never before.

    Half of the threads leave stores alone, so a slow store cannot hold up a load. Stores that would make the
    backlog larger than `max_store_backlog_bytes` fail at once instead of waiting. `on_finished` is called
    when there is a job to take; it must not wait.
    """

    def __init__(
        self,
        num_threads: int,
        max_store_backlog_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        on_finished: Callable[[], None] = lambda: None,
    ) -> None:
        self._max_store_backlog_bytes = max_store_backlog_bytes
        self._clock = clock
        self._on_finished = on_finished
        self._changed = threading.Condition()
        self._loads: deque[tuple[_Job, Task]] = deque()
        self._stores: deque[tuple[_Job, Task]] = deque()
        self._store_backlog_bytes = 0
        self._num_open_jobs = 0
        self._finished: deque[FinishedJob] = deque()
        self._is_closed = False
        self._threads = [
            threading.Thread(
                target=self._work, args=(i >= num_threads // 2,), name=f"hypertier-io-{i}", daemon=True
            )
            for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def num_threads(self) -> int:
        """How many tasks may run at once."""
        return len(self._threads)

    def submit_load(self, job_id: int, tasks: Sequence[Task], patience: Patience | None = None) -> None:
        """Queue the tasks of a load. Those that its patience leaves no time for fail."""
        with self._changed:
            job = self._open(job_id, True, tasks, patience)
            for task in tasks:
                if self._is_closed:
                    self._settle(job, task, False)
                else:
                    self._loads.append((job, task))
            self._changed.notify_all()

    def submit_store(self, job_id: int, tasks: Sequence[Task]) -> int:
        """Queue the tasks of a store as far as the backlog allows; returns how many were dropped."""
        num_dropped = 0
        with self._changed:
            job = self._open(job_id, False, tasks)
            for task in tasks:
                backlog = self._store_backlog_bytes + task.num_bytes
                if self._is_closed or backlog > self._max_store_backlog_bytes:
                    num_dropped += 1
                    self._settle(job, task, False)
                else:
                    self._store_backlog_bytes = backlog
                    self._stores.append((job, task))
            self._changed.notify_all()
        return num_dropped

    def take_finished(self) -> list[FinishedJob]:
        """Return the jobs that finished since the last call."""
        with self._changed:
            finished = list(self._finished)
            self._finished.clear()
        return finished

    def drain(self) -> None:
        """Wait until every job is finished. Tasks end by themselves: each has its own time limit."""
        with self._changed:
            self._changed.wait_for(lambda: self._num_open_jobs == 0)

    def close(self, timeout_seconds: float) -> bool:
        """Fail what is queued, wait for what runs, end the threads.

        Returns whether all of them ended in time.
        """
        with self._changed:
            self._is_closed = True
            for waiting in (self._loads, self._stores):
                while waiting:
                    self._settle(*waiting.popleft(), False)
            self._store_backlog_bytes = 0
            self._changed.notify_all()
        deadline = self._clock() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, stores_too: bool) -> None:
        while (taken := self._take(stores_too)) is not None:
            job, task = taken
            left = self._seconds_left(job)
            moved = left > 0 and task.run(left)
            with self._changed:
                job.is_given_up |= not moved and self._seconds_left(job) <= 0
                if not job.is_load:
                    self._store_backlog_bytes = max(0, self._store_backlog_bytes - task.num_bytes)
                self._settle(job, task, moved)
                self._changed.notify_all()
            del taken, job, task  # a slot's memory must not outlive its task

    def _take(self, stores_too: bool) -> tuple[_Job, Task] | None:
        with self._changed:
            while True:
                if self._loads:
                    return self._loads.popleft()
                if stores_too and self._stores:
                    return self._stores.popleft()
                if self._is_closed:
                    return None
                self._changed.wait()

    def _seconds_left(self, job: _Job) -> float:
        if job.patience is None:
            return math.inf
        return job.patience.seconds_left(len(job.moved), self._clock() - job.started_at)

    def _open(
        self, job_id: int, is_load: bool, tasks: Sequence[Task], patience: Patience | None = None
    ) -> _Job:
        job = _Job(job_id, is_load, len(tasks), self._clock(), patience)
        self._num_open_jobs += 1
        if not tasks:
            self._finish(job)
        return job

    def _settle(self, job: _Job, task: Task, moved: bool) -> None:
        (job.moved if moved else job.failed).append(task.key)
        job.num_bytes += task.num_bytes if moved else 0
        job.num_open -= 1
        if job.num_open == 0:
            self._finish(job)

    def _finish(self, job: _Job) -> None:
        self._num_open_jobs -= 1
        self._finished.append(
            FinishedJob(
                job.job_id,
                job.is_load,
                tuple(job.moved),
                tuple(job.failed),
                job.num_bytes,
                self._clock() - job.started_at,
                job.is_given_up,
            )
        )
        self._on_finished()
