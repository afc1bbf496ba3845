"""A mover in a process of its own, which maps L1: what the engine's scheduler pays is a message a job.

Threads of the engine's process would take turns with the scheduler at the interpreter's lock: at each return
from a system call, of which TLS makes one per 16 KiB.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypertier.errors import TierUnavailableError
from hypertier.tier.circuit import Circuit
from hypertier.tier.frames import Pipe, Tally
from hypertier.tier.mapping import new_shared
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import News, merge
from hypertier.tier.mover_plan import MoverPlan
from hypertier.tier.transfers import FinishedJob, Patience

DRAIN_SECONDS = 60.0  # the process ends each job by its time limits; one that does not is ended itself
LOOK_SECONDS = 0.2
LOOK_CALLS = 32  # of `take_news`: then the socket is looked at in any case, for the process may have ended
STEADY_SECONDS = 10.0  # one that lives so long has not died of what the one before it died of
START_SECONDS = 60.0  # to its first word: a busy machine reads Python's modules slowly
SILENCE_SECONDS = 10.0  # many of the beats of a process that does not hang, and its jobs with it


@dataclass(frozen=True)
class _Job:
    keys: tuple[bytes, ...]
    is_load: bool
    started_at: float


class ProcessMover:
    """A mover whose slots are numbers of chunks. Used by one thread.

    The process is started at once and again, after a pause, when it has ended, or is ended because nothing is
    heard of it. What it was at fails then: a process that is gone writes into no slot. `l1` is a descriptor
    of the file that L1 begins in at `offset`; it is this object's to close.
    """

    def __init__(
        self,
        plan: MoverPlan,
        l1: int,
        offset: int,
        num_bytes: int,
        hash_root: Callable[[], bytes],
        counters: Counters,
        on_change: Callable[[str, Exception | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._l1 = l1
        self._range = (offset, num_bytes)
        self._hash_root = hash_root
        self._counters = counters
        self._on_change = on_change
        self._clock = clock
        self._starts = Circuit(clock)  # closed once the process has worked for a while
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Pipe | None = None
        self._tally: Tally | None = None
        self._num_read = 0  # of what the process has counted, last
        self._num_calls = 0  # of `take_news`, since the socket was looked at
        self._is_rooted = False
        self._is_up = True
        self._retry_at = math.inf
        self._started_at = self._heard_at = -math.inf
        self._jobs: dict[int, _Job] = {}
        self._news = News()
        self._has_news = False
        self._start()

    @property
    def pid(self) -> int | None:
        """The process, None while there is none."""
        return self._process.pid if self._process else None

    @property
    def is_up(self) -> bool:
        """Whether L2 is asked, as far as the process has told."""
        return self._is_up

    @property
    def may_try(self) -> bool:
        """Whether it is time to look whether L2, or the process, is back."""
        if self._process is None:
            return self._starts.may_try
        return not self._is_up and self._clock() >= self._retry_at

    def probe(self, keys: list[bytes]) -> None:
        """Ask whether L2 holds chunks; with none, connect."""
        if not self._is_up:
            self._retry_at = math.inf  # until the process tells anew
        self._send("probe", keys)

    def sample(self, keys: list[bytes]) -> None:
        """Load chunks for nobody."""
        self._send("sample", keys)

    def load(
        self, job_id: int, keys: Sequence[bytes], slots: Sequence[int], patience: Patience | None = None
    ) -> None:
        """Fetch chunks straight into their slots."""
        self._jobs[job_id] = _Job(tuple(keys), True, self._clock())
        self._send("load", job_id, list(keys), list(slots), None if patience is None else tuple(patience))

    def store(self, job_id: int, keys: Sequence[bytes], slots: Sequence[int]) -> None:
        """Write chunks from their slots."""
        if not keys:
            self._news.finished.append(FinishedJob(job_id, False, (), (), 0, 0.0))
            self._has_news = True
            return
        self._jobs[job_id] = _Job(tuple(keys), False, self._clock())
        self._send("store", job_id, list(keys), list(slots))

    def take_news(self) -> News | None:
        """Return what the process has told since the last call. Mostly nothing, which is to cost next to
        nothing: this is called several times in each step.
        """
        if self._tally is not None and self._pipe is not None:
            self._num_calls += 1
            num_told = self._tally.value
            is_moving = num_told != self._num_read or num_told % 2 or self._pipe.is_behind
            if is_moving or self._num_calls >= LOOK_CALLS:
                self._num_calls = 0
                self._read()
        if not self._has_news:
            return None
        news, self._news, self._has_news = self._news, News(), False
        return news

    def drain(self) -> None:
        """Wait until no job touches a slot any more: until the process has told so, or is gone."""
        deadline = self._clock() + DRAIN_SECONDS
        while self._jobs and self._pipe is not None:
            self._pipe.wait(LOOK_SECONDS)
            self._read()
            if self._jobs and self._pipe is not None and self._clock() > deadline:
                self._give_up(TimeoutError(f"no end of its jobs within {DRAIN_SECONDS:g} s"))

    def close(self, timeout_seconds: float) -> bool:
        """End the process: it touches no slot any more. What it was at is left undone."""
        if self._process is not None:
            self._give_up(None, timeout_seconds)
        if self._l1 >= 0:
            os.close(self._l1)
            self._l1 = -1
        return True

    def _read(self) -> None:
        if self._pipe is None or self._tally is None:
            return
        num_told = self._tally.value
        if num_told != self._num_read:
            self._num_read = num_told
            self._heard_at = self._clock()
        try:
            for message in self._pipe.take():
                self._note(message)
        except ConnectionError as error:
            self._give_up(error)
        else:
            longest = SILENCE_SECONDS if self._num_read else START_SECONDS
            if self._clock() - self._heard_at > longest:
                self._give_up(TimeoutError(f"no sign of it for {longest:g} s"))

    def _start(self) -> None:
        try:
            self._process, ours, self._tally = spawn(self._l1)
        except OSError as error:
            self._lose(error)
            return
        self._num_read = self._num_calls = 0
        self._pipe = Pipe(ours)
        self._started_at = self._heard_at = self._clock()
        self._is_rooted = False
        self._retry_at = math.inf
        self._send_on((pickle.dumps(self._plan), *self._range))

    def _send(self, *command: object) -> None:
        if self._process is None and self._l1 >= 0 and self._starts.admits():
            self._start()
        if self._process is not None and not self._is_rooted:
            self._send_root()
        if self._process is None:
            self._fail_open()
        else:
            self._send_on(command)

    def _send_root(self) -> None:
        try:
            root = self._hash_root()
        except TierUnavailableError:
            return  # it is told the same by our end, and asks again at the next command
        self._is_rooted = True
        self._send_on(("root", root))

    def _send_on(self, message: object) -> None:
        if self._pipe is None:
            return
        try:
            self._pipe.put(message)
        except ConnectionError as error:
            self._give_up(error)

    def _note(self, message: tuple[Any, ...]) -> None:
        """Take in a message, as `mover_main` describes it."""
        is_steady = self._clock() - self._started_at >= STEADY_SECONDS
        if is_steady and not self._starts.is_closed and self._starts.succeeded():
            self._on_change("transfer", None)
        if message[0] == "change":
            _, what, error = message
            self._on_change(what, None if error is None else TierUnavailableError(": ".join(error)))
            return
        _, (answers, finished, lookup_seconds, samples), counts, self._is_up, self._retry_at = message
        for name, amount in counts.items():
            self._counters.add(name, amount)
        jobs = [FinishedJob(*job) for job in finished]
        for job in jobs:
            self._jobs.pop(job.job_id, None)
        self._has_news = True
        merge(self._news, News(answers, jobs, lookup_seconds, samples))

    def _give_up(self, error: Exception | None, timeout_seconds: float = 0.0) -> None:
        """End the process, whatever it does, and let fail what it was at."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            end(self._process, timeout_seconds)
        self._process = self._pipe = self._tally = None
        if error is not None:
            self._lose(error)
        self._fail_open()

    def _lose(self, error: Exception) -> None:
        self._is_up = False
        self._counters.add("mover_losses")
        if self._starts.failed():
            self._on_change("transfer", TierUnavailableError(f"the mover process ended: {error}"))

    def _fail_open(self) -> None:
        for job_id, job in self._jobs.items():
            seconds = self._clock() - job.started_at
            self._news.finished.append(FinishedJob(job_id, job.is_load, (), job.keys, 0, seconds))
            self._has_news = True
        self._jobs.clear()


def spawn(l1: int) -> tuple[subprocess.Popen[bytes], socket.socket, Tally]:
    """Start the process; returns it with our end of the socket pair, and the count of what it has told.

    It is given a descriptor of this process, too: our end alone would not tell of our death while a fork of
    this process has it open.

    Raises:
        OSError: there is no descriptor, process or memory left.
    """
    with contextlib.ExitStack() as theirs:
        page = new_shared("hypertier-tally", mmap.PAGESIZE)
        theirs.callback(os.close, page)
        tally = Tally(page)
        ours, end = socket.socketpair()
        theirs.enter_context(end)
        given = [end.fileno(), l1, page]
        numbers = [*given, os.getpid()]
        with contextlib.suppress(OSError):  # before Linux 5.3, or not allowed
            given.append(os.pidfd_open(os.getpid()))
            numbers.append(given[-1])
            theirs.callback(os.close, given[-1])
        command = [sys.executable, "-P", "-m", "hypertier.tier.mover_main", *map(str, numbers)]
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=given)
        except OSError:
            ours.close()
            raise
    return process, ours, tally


def end(process: subprocess.Popen[bytes], timeout_seconds: float) -> None:
    """Wait until a process has ended by itself, but no longer; then it ends by force."""
    try:
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
