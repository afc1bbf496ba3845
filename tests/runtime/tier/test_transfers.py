"""Jobs finish when nothing works on them any more; stores yield to loads and are bounded."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

import pytest
from fakes_tier import FakeClock, eventually

from hypertier.tier.transfers import FinishedJob, Patience, Task, Transfers

SECONDS = 20.0


@pytest.fixture
def transfers() -> Iterator[Transfers]:
    made = Transfers(num_threads=2, max_store_backlog_bytes=100)
    yield made
    assert made.close(SECONDS)


def task(key: bytes, run: Callable[[], bool] = lambda: True, num_bytes: int = 10) -> Task:
    return Task(key, num_bytes, lambda seconds: run())


def finished(transfers: Transfers, count: int) -> list[FinishedJob]:
    jobs: list[FinishedJob] = []

    def collected() -> bool:
        jobs.extend(transfers.take_finished())
        return len(jobs) >= count

    assert eventually(collected)
    return jobs


def test_a_job_tells_what_moved_and_what_failed(transfers: Transfers) -> None:
    transfers.submit_load(1, [task(b"a"), task(b"b", lambda: False), task(b"c")])

    (job,) = finished(transfers, 1)

    assert (job.job_id, job.is_load, job.num_bytes) == (1, True, 20)
    assert (set(job.moved), job.failed) == ({b"a", b"c"}, (b"b",))


def test_a_job_without_tasks_is_finished_at_once(transfers: Transfers) -> None:
    transfers.submit_store(4, [])

    assert [job.job_id for job in transfers.take_finished()] == [4]


def test_a_job_is_not_finished_while_one_task_runs(transfers: Transfers) -> None:
    gate, other_ran = threading.Event(), threading.Event()

    def run_other() -> bool:
        other_ran.set()
        return True

    transfers.submit_load(1, [task(b"slow", lambda: gate.wait(SECONDS)), task(b"fast", run_other)])
    assert other_ran.wait(SECONDS)
    before = transfers.take_finished()
    gate.set()

    assert before == []
    assert len(finished(transfers, 1)) == 1


def test_a_slow_store_does_not_hold_up_a_load(transfers: Transfers) -> None:
    gate = threading.Event()
    transfers.submit_store(1, [task(b"%d" % i, lambda: gate.wait(SECONDS)) for i in range(5)])

    transfers.submit_load(2, [task(b"load")])

    assert [job.job_id for job in finished(transfers, 1)] == [2]
    gate.set()
    assert [job.job_id for job in finished(transfers, 1)] == [1]


def test_stores_beyond_the_backlog_are_dropped_and_their_job_still_ends(transfers: Transfers) -> None:
    gate = threading.Event()
    tasks = [task(b"%d" % i, lambda: gate.wait(SECONDS), num_bytes=40) for i in range(4)]

    num_dropped = transfers.submit_store(1, tasks)
    gate.set()

    (job,) = finished(transfers, 1)
    assert num_dropped == 2
    assert (set(job.moved), set(job.failed)) == ({b"0", b"1"}, {b"2", b"3"})


def test_the_backlog_is_given_back(transfers: Transfers) -> None:
    for job_id in range(5):
        dropped = transfers.submit_store(job_id, [task(b"k", num_bytes=100)])
        finished(transfers, 1)

        assert dropped == 0


def test_drain_waits_for_every_job(transfers: Transfers) -> None:
    ran: list[int] = []
    transfers.submit_load(1, [task(b"%d" % i, lambda: ran.append(1) is None) for i in range(50)])

    transfers.drain()

    assert len(ran) == 50
    assert len(transfers.take_finished()) == 1


def test_close_fails_what_is_queued_and_says_when_a_thread_does_not_end() -> None:
    gate, started = threading.Event(), threading.Event()

    def hang() -> bool:
        started.set()
        return gate.wait(SECONDS)

    hung = Transfers(num_threads=1, max_store_backlog_bytes=100)
    hung.submit_load(1, [task(b"runs", hang)])
    hung.submit_load(2, [task(b"waits")])
    assert started.wait(SECONDS)

    ended = hung.close(0.05)

    assert not ended
    assert [(job.job_id, job.failed) for job in hung.take_finished()] == [(2, (b"waits",))]
    gate.set()
    assert hung.close(SECONDS)


def test_a_job_submitted_after_close_fails() -> None:
    closed = Transfers(num_threads=1, max_store_backlog_bytes=100)
    closed.close(SECONDS)

    closed.submit_load(1, [task(b"a")])
    closed.submit_store(2, [task(b"b")])

    assert [(job.job_id, job.failed) for job in closed.take_finished()] == [(1, (b"a",)), (2, (b"b",))]


def test_a_load_may_take_its_deadline_and_what_the_chunks_that_arrived_would_have_cost() -> None:
    patience = Patience(first_seconds=0.2, seconds_per_chunk=0.05)

    left = [patience.seconds_left(*case) for case in [(0, 0.0), (0, 0.15), (4, 0.3), (8, 1.0)]]

    assert left == pytest.approx([0.2, 0.05, 0.1, -0.4])


def test_a_chunk_that_takes_long_to_compute_is_waited_for_as_long() -> None:
    patience = Patience(first_seconds=0.2, seconds_per_chunk=3.0)

    assert patience.seconds_left(0, 1.0) == pytest.approx(2.0)


def test_a_load_is_given_up_when_its_patience_is_over_and_keeps_what_has_arrived() -> None:
    clock = FakeClock()
    hasty = Transfers(num_threads=1, max_store_backlog_bytes=100, clock=clock)
    given: list[float] = []

    def arrive(seconds: float) -> bool:
        given.append(seconds)
        clock.advance(0.15)
        return True

    tasks = [Task(b"%d" % i, 10, arrive) for i in range(4)]
    hasty.submit_load(1, tasks, Patience(0.2, 0.01))
    hasty.submit_load(2, tasks[:1])

    one, other = finished(hasty, 2)
    assert (one.moved, one.failed, one.is_given_up) == ((b"0", b"1"), (b"2", b"3"), True)
    assert (other.moved, other.is_given_up) == ((b"0",), False)
    assert given == pytest.approx([0.2, 0.06, math.inf])
    assert hasty.close(SECONDS)
