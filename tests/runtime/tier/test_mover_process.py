"""A mover in another process does what one on threads does, and its end is a miss."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, cast

import pytest
from fakes_tier import FakeClock, RealValkey, eventually

from hypertier.errors import TierUnavailableError
from hypertier.tier import mover_main
from hypertier.tier.cache import L2Cache
from hypertier.tier.frames import Pipe, Tally, frame
from hypertier.tier.lookups import Verdicts
from hypertier.tier.mapping import map_shared, new_shared
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import News, ThreadMover
from hypertier.tier.mover_plan import MoverPlan
from hypertier.tier.mover_process import (
    DRAIN_SECONDS,
    LOOK_CALLS,
    SILENCE_SECONDS,
    START_SECONDS,
    STEADY_SECONDS,
    ProcessMover,
)
from hypertier.tier.settings import TierSettings
from hypertier.tier.transfers import FinishedJob

CHUNK = 16 * 1024
A, B, C = b"a" * 36, b"b" * 36, b"c" * 36
SECONDS = 30.0


@pytest.fixture(scope="module")
def valkey() -> Iterator[RealValkey]:
    with RealValkey() as server:
        yield server


class World:
    """A cache over a mover process, on a clock of its own, with eight slots of shared memory."""

    def __init__(self, url: str, namespace: str) -> None:
        self.clock = FakeClock()
        self.counters = Counters()
        self.changes: list[tuple[str, bool]] = []
        self.root: bytes | None = b"root"
        l1 = new_shared("l1", 8 * CHUNK)
        self.l1 = map_shared(l1, 0, 8 * CHUNK)
        settings = TierSettings(url=url, namespace=namespace, io_timeout_ms=20_000)
        self.mover = ProcessMover(
            MoverPlan(settings, "org/model", {}, CHUNK),
            l1,
            0,
            len(self.l1),
            self.hash_root,
            self.counters,
            lambda what, error: self.changes.append((what, error is None)),
            self.clock,
        )
        self.cache = L2Cache(
            self.mover, Verdicts(20.0, self.counters, self.clock), self.counters, clock=self.clock
        )

    def hash_root(self) -> bytes:
        if self.root is None:
            raise TierUnavailableError("not seeded yet")
        return self.root

    def fill(self, slot: int, content: bytes) -> None:
        self.l1[slot * CHUNK : (slot + 1) * CHUNK] = content * CHUNK

    def slot(self, number: int) -> bytes:
        return bytes(self.l1[number * CHUNK : (number + 1) * CHUNK])

    def finished(self, count: int = 1) -> list[FinishedJob]:
        jobs: list[FinishedJob] = []

        def collected() -> bool:
            jobs.extend(self.cache.take_finished())
            return len(jobs) >= count

        assert eventually(collected, SECONDS)
        return jobs

    def settle(self, request: str, key: bytes) -> bool | None:
        def answered() -> bool:
            answer = self.cache.lookup(request, key)
            self.cache.flush()
            return answer is not None

        assert eventually(answered, SECONDS)
        return self.cache.lookup(request, key)

    def kill(self) -> None:
        assert self.mover.pid is not None
        os.kill(self.mover.pid, signal.SIGKILL)

    def later(self, seconds: float) -> None:
        """Time passes, in which the process lived."""
        self.clock.advance(seconds)
        self.mover._heard_at = self.clock.now

    def is_lost(self) -> bool:
        self.cache.flush()
        return self.mover.pid is None


@pytest.fixture
def world(valkey: RealValkey, tmp_path: Path) -> Iterator[World]:
    made = World(valkey.url, tmp_path.name)
    yield made
    pid = made.mover.pid
    assert made.cache.close(SECONDS)
    assert pid is None or not Path(f"/proc/{pid}").exists()


def test_chunks_are_stored_looked_up_and_loaded_through_shared_memory(world: World) -> None:
    world.fill(0, b"0")
    world.fill(1, b"1")
    world.cache.store(1, [A, B], [0, 1])
    world.cache.drain()
    (stored,) = world.cache.take_finished()
    world.later(60)  # long enough to forget that it was stored

    found = [world.settle("r", key) for key in (A, B, C)]
    world.cache.load(2, [B, A, C], [4, 5, 6])
    (loaded,) = world.finished()

    assert (stored.job_id, set(stored.moved), stored.num_bytes) == (1, {A, B}, 2 * CHUNK)
    assert found == [True, True, False]
    assert (loaded.is_load, set(loaded.moved), loaded.failed) == (True, {A, B}, (C,))
    assert (world.slot(4), world.slot(5)) == (b"1" * CHUNK, b"0" * CHUNK)
    assert [world.counters.total(name) for name in ("write_bytes", "read_bytes", "loads_absent")] == [
        2 * CHUNK,
        2 * CHUNK,
        1,
    ]


@pytest.fixture
def other_end(world: World) -> Iterator[socket.socket]:
    """The end of a socket pair that the process would hold; nobody reads it."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    mover = world.mover
    assert mover._pipe is not None
    kept = mover._pipe, mover._tally
    mover._pipe, mover._tally = Pipe(ours), tally()
    with ours, theirs:
        yield theirs
    if mover.pid is None:
        kept[0].close()
    else:
        mover._pipe, mover._tally = kept


def test_what_the_socket_did_not_take_goes_on_at_each_look(world: World, other_end: socket.socket) -> None:
    keys = [number.to_bytes(44, "big") for number in range(20_000)]
    world.mover.probe(keys)

    received = b""
    for _ in range(LOOK_CALLS // 2):
        with contextlib.suppress(BlockingIOError):
            received += other_end.recv(2**24)
        world.mover.take_news()

    assert received.endswith(frame(("probe", keys)))


def test_what_the_socket_does_not_hold_at_once_is_taken_at_each_look(
    world: World, other_end: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover_main, "LONGEST_SILENCE_SECONDS", 0.0)
    answers = [(number.to_bytes(44, "big"), True) for number in range(20_000)]
    taken: list[News | None] = []

    def send(message: bytes) -> None:
        left = memoryview(message)
        while left and len(taken) < LOOK_CALLS:
            with contextlib.suppress(BlockingIOError):
                left = left[other_end.send(left) :]
            taken.append(world.mover.take_news())

    count = world.mover._tally
    assert count is not None
    reporter = mover_main.Reporter(send, count)
    reporter.note_news()
    with pytest.raises(EnoughError):
        reporter.run(cast("ThreadMover", Telling(News(answers=answers))), Counters())

    assert len(taken) < LOOK_CALLS
    assert taken[-1] == News(answers=answers)


def test_a_sample_is_loaded_into_no_slot(world: World) -> None:
    world.settle("r", C)
    world.fill(0, b"a")
    world.cache.store(1, [A], [0])
    world.finished()
    world.mover.sample([A, B])
    samples: list[tuple[int, float]] = []

    def sampled() -> bool:
        news = world.mover.take_news()
        samples.extend(news.samples if news else ())
        return bool(samples)

    assert eventually(sampled, SECONDS)
    ((num_chunks, seconds),) = samples
    assert num_chunks == 1
    assert seconds > 0
    assert [world.slot(number) for number in range(1, 8)] == [bytes(CHUNK)] * 7


def test_nothing_is_stored_before_the_engine_knows_where_its_hashes_begin(world: World) -> None:
    world.root = None
    world.cache.store(1, [A], [0])
    (early,) = world.finished()
    world.root = b"another root"
    world.settle("until L2 is up again", B)
    world.later(60)

    assert early.failed == (A,)
    assert world.settle("r", A) is False


def test_an_l2_that_is_down_is_known_to_the_engine(tmp_path: Path) -> None:
    world = World("redis://127.0.0.1:1", tmp_path.name)

    answer = world.settle("r", A)

    assert answer is False
    assert not world.cache.is_up
    assert world.changes == [("read", False)]
    assert world.cache.close(SECONDS)


def test_when_the_process_dies_what_it_was_at_fails_and_another_takes_its_place(world: World) -> None:
    world.cache.store(1, [A], [0])
    world.finished()
    first = world.mover.pid
    world.kill()
    world.cache.load(2, [A], [1])
    (lost,) = world.finished()
    assert eventually(world.is_lost)
    meanwhile = world.cache.lookup("r1", A)
    world.cache.load(3, [A], [1])
    refused = world.finished()
    world.clock.advance(1)

    world.cache.lookup("r2", A)

    assert lost.failed == (A,)
    assert meanwhile is False
    assert [job.failed for job in refused] == [(A,)]
    assert eventually(lambda: world.cache.flush() or world.cache.is_up, SECONDS)
    world.later(STEADY_SECONDS)
    world.cache.load(4, [A], [1])
    assert world.finished()[0].moved == (A,)
    assert world.mover.pid not in (None, first)
    assert world.counters.total("mover_losses") == 1
    assert world.changes == [("transfer", False), ("transfer", True)]


def test_a_process_that_dies_again_and_again_is_started_ever_more_rarely(world: World) -> None:
    for _ in range(3):
        world.clock.advance(5)
        world.settle("r", A)
        assert eventually(lambda: world.cache.flush() or world.cache.is_up, SECONDS)
        world.kill()
        assert eventually(world.is_lost)
    world.clock.advance(1.9)  # half a second and a second were the pauses before
    too_early = world.mover.may_try
    world.clock.advance(1.2)  # pauses are spread by up to half

    assert not too_early
    assert world.mover.may_try


def test_draining_ends_a_process_that_does_not_end_its_jobs(world: World) -> None:
    world.settle("r", A)
    assert world.mover.pid is not None
    os.kill(world.mover.pid, signal.SIGSTOP)
    world.cache.load(1, [A], [0])
    looks = 0

    def later() -> float:
        nonlocal looks
        looks += 1
        return world.clock.now + (DRAIN_SECONDS + 1 if looks > 2 else 0)

    world.mover._clock = later
    world.cache.drain()

    assert [job.failed for job in world.cache.take_finished()] == [(A,)]


def test_a_process_that_hangs_is_ended_and_what_it_was_at_fails(world: World) -> None:
    world.settle("r", A)
    assert world.mover.pid is not None
    os.kill(world.mover.pid, signal.SIGSTOP)
    world.cache.load(1, [A], [0])
    world.cache.store(2, [B], [1])
    world.clock.advance(SILENCE_SECONDS + 1)

    failed = world.finished(2)

    assert [job.failed for job in failed] == [(A,), (B,)]
    assert world.mover.pid is None
    assert not world.cache.is_up


@pytest.mark.parametrize("lives", [True, False], ids=["beats", "stopped"])
def test_a_process_lives_as_long_as_it_counts_though_it_says_nothing(
    world: World, other_end: socket.socket, lives: bool
) -> None:
    count, pid = world.mover._tally, world.mover.pid
    assert count is not None
    for _ in range(3):
        world.clock.advance(SILENCE_SECONDS - 1)
        if lives or not count.value:
            count.count_up()
            count.count_up()
        for _ in range(LOOK_CALLS):
            world.mover.take_news()

    assert (world.mover.pid == pid) is lives


@pytest.mark.usefixtures("other_end")
def test_a_process_that_starts_has_longer_for_its_first_word(world: World) -> None:
    pid, seen = world.mover.pid, []
    for seconds in (START_SECONDS, 1.0):
        world.clock.advance(seconds)
        for _ in range(LOOK_CALLS):
            world.mover.take_news()
        seen.append(world.mover.pid)

    assert seen == [pid, None]


class Idle:
    """A mover that has nothing to tell."""

    is_up, retry_at = True, 0.0

    def take_news(self) -> News:
        return News()


class Telling(Idle):
    """A mover that has something to tell, once."""

    def __init__(self, news: News) -> None:
        self._news: News | None = news

    def take_news(self) -> News:
        news, self._news = self._news, None
        if news is None:
            raise EnoughError
        return news


class EnoughError(Exception):
    """Ends a reporter, which does not end by itself."""


def tally() -> Tally:
    page = new_shared("tally", mmap.PAGESIZE)
    made = Tally(page)
    os.close(page)
    return made


def test_a_process_with_nothing_to_do_tells_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover_main, "LONGEST_SILENCE_SECONDS", 0.0)
    told: list[bytes] = []

    def send(message: bytes) -> None:
        told.append(message)
        if len(told) == 2:
            raise EnoughError

    with pytest.raises(EnoughError):
        mover_main.Reporter(send, tally()).run(cast("ThreadMover", Idle()), Counters())

    assert len(told) == 2


def test_a_process_with_nothing_to_do_shows_that_it_lives_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mover_main, "BEAT_SECONDS", 0.0)
    counted: list[int] = []
    count = tally()

    class Counted:
        def count_up(self) -> None:
            count.count_up()
            counted.append(count.value)
            if len(counted) == 6:
                raise EnoughError

    def send(message: bytes) -> None:
        raise AssertionError("nothing was to be said")

    reporter = mover_main.Reporter(send, cast("Tally", Counted()))
    with pytest.raises(EnoughError):
        reporter.run(cast("ThreadMover", Idle()), Counters())

    assert counted == [1, 2, 3, 4, 5, 6]


def test_a_machine_without_descriptors_costs_hits_and_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settle("r", A)
    world.kill()
    assert eventually(world.is_lost)
    world.clock.advance(1)

    with monkeypatch.context() as patched:
        patched.setattr("socket.socketpair", no_descriptor)
        answer = world.cache.lookup("r1", A)
    world.clock.advance(60)

    assert answer is False
    assert world.counters.total("mover_losses") == 2
    assert world.settle("r2", B) is False
    assert eventually(lambda: world.cache.flush() or world.cache.is_up, SECONDS)


def no_descriptor() -> NoReturn:
    raise OSError(errno.EMFILE, "Too many open files")


def test_the_process_ends_with_the_engine(valkey: RealValkey, tmp_path: Path) -> None:
    world = World(valkey.url, tmp_path.name)
    world.settle("r", A)
    pid = world.mover.pid

    world.mover._pipe._socket.close()  # as the kernel does for an engine that is killed

    assert world.mover._process is not None
    assert world.mover._process.wait(SECONDS) == 0
    assert pid == world.mover._process.pid
    assert world.cache.close(SECONDS)


ENGINE = """
import os, resource, sys, tempfile, time
from hypertier.tier import mover_process
if sys.argv[1] == "no pidfd":
    def refuse(pid):
        raise OSError
    os.pidfd_open = refuse
if sys.argv[1] == "many descriptors":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    many = [os.dup(0) for _ in range(1100)]
with tempfile.TemporaryFile() as l1:
    process, ours, _ = mover_process.spawn(l1.fileno())
fork = os.fork()
if fork:
    print(process.pid, fork, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("case", ["pidfd", "no pidfd", "many descriptors"])
def test_the_process_never_outlives_a_killed_engine_whose_fork_lives_on(case: str) -> None:
    with subprocess.Popen([sys.executable, "-c", ENGINE, case], stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        mover, fork = map(int, engine.stdout.readline().split())
        alive = is_running(mover)

        engine.kill()

        assert alive
        assert eventually(lambda: not is_running(mover))
        assert is_running(fork)
        os.kill(fork, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether there is such a process, and not only what is left of it until somebody waits for it."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
