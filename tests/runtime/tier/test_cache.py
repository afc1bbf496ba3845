"""L2 as the scheduler sees it: right when L2 works, a miss when it does not, and never waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fakes_tier import FakeClock, FixedNamespace, eventually

from hypertier.errors import TierUnavailableError
from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.cache import SAMPLE_CHUNKS, L2Cache
from hypertier.tier.circuit import Circuit
from hypertier.tier.entries import Entries
from hypertier.tier.gate import FIRST_SAMPLE_SECONDS, Gate
from hypertier.tier.lookups import Verdicts
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import SAMPLE_SECONDS, ThreadMover
from hypertier.tier.names import entry_name
from hypertier.tier.transfers import FinishedJob, Patience, Transfers

CHUNK = 1000
A, B, C = b"a" * 36, b"b" * 36, b"c" * 36
SECONDS = 20.0


class World:
    """An L2Cache over a dict, on a clock of its own."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.counters = Counters()
        self.changes: list[tuple[str, bool]] = []
        entries = Entries(
            self.backend,
            FixedNamespace(),
            chunk_bytes=CHUNK,
            ttl_seconds=3600,
            lookup_timeout_seconds=SECONDS,
            io_timeout_seconds=SECONDS,
        )
        self.mover = ThreadMover(
            entries,
            Transfers(2, 10 * CHUNK, self.clock),
            self.counters,
            lambda what, error: self.changes.append((what, error is None)),
            new_circuit=lambda: Circuit(self.clock, lambda: 0.0),
            clock=self.clock,
        )
        self.cache = L2Cache(
            self.mover,
            Verdicts(0.2, self.counters, self.clock),
            self.counters,
            Gate(clock=self.clock, load_deadline_seconds=0.5),
            self.clock,
        )
        self.l1 = memoryview(bytearray(8 * CHUNK))

    def slot(self, number: int) -> memoryview:
        return self.l1[number * CHUNK : (number + 1) * CHUNK]

    def put(self, key: bytes, content: bytes) -> None:
        slot = self.slot(7)
        slot[:] = content * CHUNK
        self.cache.store(99, [key], [slot])
        assert self.finished().moved == (key,)

    def finished(self) -> FinishedJob:
        jobs: list[FinishedJob] = []

        def collected() -> bool:
            jobs.extend(self.cache.take_finished())
            return bool(jobs)

        assert eventually(collected)
        return jobs[0]

    def settle(self, request: str, key: bytes) -> bool | None:
        """Look up until there is an answer; the clock stands still."""

        def answered() -> bool:
            answer = self.cache.lookup(request, key)
            self.cache.flush()
            return answer is not None

        assert eventually(answered)
        return self.cache.lookup(request, key)

    def spoil(self, key: bytes) -> None:
        name = entry_name(b"n" * 16, key, 0)
        value = self.backend.values[name]
        self.backend.values[name] = value[:-1] + bytes([value[-1] ^ 1])


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.backend.close()
    assert made.cache.close(SECONDS)


def test_what_one_engine_stores_another_looks_up_and_loads(world: World) -> None:
    world.put(A, b"7")
    world.clock.advance(60)  # long enough to forget that it was stored

    found = [world.settle("r", A), world.settle("r", B)]
    world.cache.load(1, [A], [world.slot(0)])

    assert found == [True, False]
    assert world.finished().moved == (A,)
    assert world.slot(0) == b"7" * CHUNK


def test_one_bad_chunk_of_a_job_costs_only_itself(world: World) -> None:
    world.put(A, b"a")
    world.put(B, b"b")
    world.spoil(B)

    world.cache.load(1, [A, B, C], [world.slot(0), world.slot(1), world.slot(2)])

    job = world.finished()
    assert (job.moved, set(job.failed)) == ((A,), {B, C})
    assert world.counters.total("integrity_failures") == 1
    assert world.counters.total("loads_absent") == 1


def test_a_chunk_that_failed_to_load_is_a_miss_at_the_next_lookup(world: World) -> None:
    world.put(A, b"a")
    world.spoil(A)
    hit = world.settle("r", A)
    world.cache.load(1, [A], [world.slot(0)])
    world.finished()

    assert (hit, world.cache.lookup("r", A)) == (True, False)


def test_what_l2_is_known_to_hold_is_not_sent_again(world: World) -> None:
    world.put(A, b"a")
    calls = world.backend.num_calls

    world.cache.store(2, [A], [world.slot(0)])

    assert world.finished().failed == ()
    assert world.backend.num_calls == calls
    assert world.counters.total("stores_skipped") == 1


def test_a_lookup_that_l2_does_not_answer_is_a_miss_by_the_deadline(world: World) -> None:
    world.backend.gate.clear()
    first = world.cache.lookup("r", A)
    world.cache.flush()

    world.clock.advance(0.2)

    assert (first, world.cache.lookup("r", A)) == (None, False)
    assert world.counters.total("lookup_expired") == 1


def test_when_l2_fails_later_requests_are_told_at_once(world: World) -> None:
    world.backend.error = TierUnavailableError("gone")
    world.settle("r1", A)
    assert eventually(lambda: not world.cache.is_up)
    calls = world.backend.num_calls

    answers = [world.cache.lookup(f"r{i}", b"%d" % i) for i in range(100)]

    assert answers == [False] * 100
    assert world.backend.num_calls == calls
    assert world.changes == [("read", False)]


def test_a_lookup_finds_out_in_the_background_that_l2_is_back(world: World) -> None:
    world.backend.error = TierUnavailableError("gone")
    world.settle("r1", A)
    assert eventually(lambda: not world.cache.is_up)
    world.backend.error = None
    world.clock.advance(1)

    told_meanwhile = world.cache.lookup("r2", A)

    assert told_meanwhile is False
    assert eventually(lambda: world.cache.is_up)
    assert world.changes == [("read", False), ("read", True)]


def test_loads_fail_fast_while_l2_fails(world: World) -> None:
    world.backend.error = TierUnavailableError("gone")
    world.cache.load(1, [A], [world.slot(0)])
    world.finished()
    calls = world.backend.num_calls

    world.cache.load(2, [A, B], [world.slot(0), world.slot(1)])

    assert set(world.finished().failed) == {A, B}
    assert world.backend.num_calls == calls


def test_a_store_that_l2_refuses_leaves_lookups_and_loads_alone(world: World) -> None:
    world.put(A, b"a")
    world.backend.error = TierUnavailableError("OOM")
    world.cache.store(1, [B], [world.slot(1)])
    failed = world.finished().failed
    world.backend.error = None
    world.cache.load(2, [A], [world.slot(0)])

    assert failed == (B,)
    assert world.finished().moved == (A,)
    assert world.changes == [("write", False)]


def test_warming_up_an_absent_l2_only_marks_it_down(world: World) -> None:
    world.backend.error = TierUnavailableError("gone")

    world.cache.warm_up()

    assert eventually(lambda: not world.cache.is_up)


def make_computing_cheap(world: World) -> None:
    """One chunk per microsecond, which no load keeps up with, by the world's clock."""
    world.cache.gate.observe_load(1, 1.0)
    world.cache.note_scheduled(["computed"])
    world.clock.advance(1e-6)
    world.cache.store(50, [B], [world.slot(1)], "computed")
    world.finished()


def test_while_loading_is_slower_than_computing_lookups_are_misses_and_stores_go_on(world: World) -> None:
    world.put(A, b"a")
    make_computing_cheap(world)

    answer = world.cache.lookup("r", A)
    world.put(C, b"c")

    assert not world.cache.gate.is_open
    assert answer is False
    assert world.counters.total("lookups_gated") == 1


def test_a_closed_gate_opens_by_a_sample_that_nobody_waits_for(world: World) -> None:
    world.put(A, b"a")
    make_computing_cheap(world)
    world.clock.advance(FIRST_SAMPLE_SECONDS)

    meanwhile = world.cache.lookup("r", A)  # the clock stands still while the sample is loaded

    def opened() -> bool:
        world.cache.flush()
        return world.cache.gate.is_open

    assert meanwhile is False
    assert eventually(opened)
    assert world.settle("r2", A) is True


def test_a_closed_gate_opens_though_nobody_asks_for_what_l2_holds(world: World) -> None:
    world.put(A, b"a")
    make_computing_cheap(world)
    world.clock.advance(FIRST_SAMPLE_SECONDS)

    world.cache.lookup("r", C)

    assert eventually(lambda: world.cache.flush() or world.cache.gate.is_open)


def believing_that_computing_is_cheaper(world: World) -> L2Cache:
    """A cache of an engine that has just started, and has nothing to do but what is asked here."""
    gate = Gate("auto", 2.0, 1.0, world.clock, load_deadline_seconds=0.5)
    return L2Cache(world.mover, Verdicts(0.2, world.counters, world.clock), world.counters, gate, world.clock)


def test_what_priors_have_closed_opens_by_what_the_first_request_asks_for(world: World) -> None:
    world.put(A, b"a")
    cache = believing_that_computing_is_cheaper(world)

    meanwhile = cache.lookup("r", A)

    assert meanwhile is False
    assert eventually(lambda: cache.flush() or cache.gate.is_open)


def test_what_priors_have_closed_opens_by_the_first_chunk_that_is_stored(world: World) -> None:
    cache = believing_that_computing_is_cheaper(world)
    cache.lookup("r", A)  # which L2 lacks

    cache.store(1, [A], [world.slot(0)])

    assert eventually(lambda: cache.flush() or cache.gate.is_open)


def test_after_a_sample_that_l2_has_lost_the_next_is_what_is_asked_for(world: World) -> None:
    world.put(A, b"a")
    make_computing_cheap(world)
    kept = dict(world.backend.values)
    world.backend.values.clear()
    world.clock.advance(FIRST_SAMPLE_SECONDS)
    world.cache.lookup("r", A)
    assert eventually(lambda: world.cache.flush() or not world.cache._stored)
    world.backend.values.update(kept)

    world.clock.advance(FIRST_SAMPLE_SECONDS)
    world.cache.lookup("r", A)

    assert eventually(lambda: world.cache.flush() or world.cache.gate.is_open)


def test_what_a_sample_found_is_known_once(world: World) -> None:
    world.put(A, b"a")
    world.mover.sample([A, B])
    answers: list[tuple[bytes, bool]] = []

    def answered() -> bool:
        answers.extend(world.mover.take_news().answers)
        return len(answers) == 2

    assert eventually(answered)
    assert sorted(answers) == [(A, True), (B, False)]
    assert world.mover.take_news().answers == []


def test_a_sample_is_as_many_chunks_as_are_loaded_at_once_those_stored_last(world: World) -> None:
    keys = [bytes([letter]) * 36 for letter in b"abcdef"]
    slots = [world.slot(number % 4) for number in range(len(keys))]
    world.cache.store(1, keys, slots)
    world.cache.drain()
    world.cache.take_finished()
    asked: list[list[bytes]] = []
    world.mover.sample = asked.append  # type: ignore[method-assign]
    make_computing_cheap(world)
    world.clock.advance(FIRST_SAMPLE_SECONDS)

    world.cache.lookup("r", C)

    assert [len(sampled) for sampled in asked] == [SAMPLE_CHUNKS]
    assert set(asked[0]) <= {*keys, B}


def test_a_sample_tells_how_long_its_chunks_took_together(world: World) -> None:
    world.put(A, b"a")
    world.put(B, b"b")
    world.mover.sample([A, B, C])
    samples: list[tuple[int, float]] = []

    assert eventually(lambda: bool(samples.extend(world.mover.take_news().samples) or samples))
    assert samples == [(2, 0.0)]
    assert world.mover.take_news().finished == []


def test_a_load_waits_for_no_sample(world: World) -> None:
    world.put(A, b"a")
    world.put(B, b"b")
    world.backend.held = {entry_name(b"n" * 16, B, 0)}
    world.backend.gate.clear()
    world.mover.sample([B] * 4)  # more than there are threads

    world.cache.load(1, [A], [world.slot(0)])
    job = world.finished()
    world.backend.gate.set()

    assert job.moved == (A,)


def test_a_sample_that_took_too_long_is_one_that_l2_may_still_hold(world: World) -> None:
    world.put(A, b"a")
    make_computing_cheap(world)
    world.backend.gate.clear()
    world.clock.advance(FIRST_SAMPLE_SECONDS)
    calls = world.backend.num_calls
    world.cache.lookup("r", C)
    assert eventually(lambda: world.backend.num_calls == calls + 2)  # A, and what was computed
    world.clock.advance(2 * SAMPLE_SECONDS)
    world.backend.error = TierUnavailableError("slow")
    world.backend.gate.set()
    assert eventually(lambda: world.mover._samples._num_open_jobs == 0)
    world.backend.error = None

    world.clock.advance(FIRST_SAMPLE_SECONDS)

    def opened() -> bool:
        world.cache.lookup("r", C)  # first finds out whether L2 is back
        world.cache.flush()
        return world.cache.gate.is_open

    assert eventually(opened)


def test_a_sample_finds_out_that_l2_is_away(world: World) -> None:
    world.backend.error = TierUnavailableError("refused")
    world.mover._samples._clock = lambda: world.clock.advance(0.001) or world.clock()

    world.mover.sample([A])

    assert eventually(lambda: not world.cache.is_up)
    assert world.changes == [("read", False)]


def test_a_preempted_request_tells_nothing_about_computing(world: World) -> None:
    world.cache.note_scheduled(["r"])
    world.cache.note_scheduled([], preempted=["r"])
    world.clock.advance(100)

    world.cache.store(1, [A], [world.slot(0)], "r")

    assert world.cache.gate.compute_seconds_per_chunk is None
    world.finished()


@pytest.mark.parametrize("way", ["spoilt", "absent"])
def test_loads_that_fail_whole_again_and_again_close_the_gate(world: World, way: str) -> None:
    gate = Gate(clock=world.clock, load_deadline_seconds=0.5, allowed_debt_seconds=0.4)
    cache = L2Cache(
        world.mover, Verdicts(0.2, world.counters, world.clock), world.counters, gate, world.clock
    )
    world.put(A, b"a")
    if way == "spoilt":
        world.spoil(A)
    else:
        world.backend.values.clear()

    for job in range(10):
        world.backend.gate.clear()
        before = world.backend.num_calls
        cache.load(job, [A], [world.slot(0)])
        assert eventually(lambda before=before: world.backend.num_calls == before + 1)
        world.clock.advance(0.1)
        world.backend.gate.set()
        assert eventually(lambda: bool(cache.take_finished()))

    assert not gate.is_open


def test_a_load_that_is_given_up_closes_the_gate_even_if_nothing_arrived(world: World) -> None:
    world.cache.note_scheduled(["computed"])
    world.clock.advance(0.01)
    world.cache.store(50, [A], [world.slot(1)], "computed")
    world.finished()
    before = world.backend.num_calls
    world.backend.gate.clear()
    world.cache.load(1, [A, B, C], [world.slot(0), world.slot(1), world.slot(2)])
    assert eventually(lambda: world.backend.num_calls == before + 2)

    world.clock.advance(1.0)
    world.backend.error = TierUnavailableError("gone")
    world.backend.gate.set()
    job = world.finished()

    assert (job.is_given_up, job.moved) == (True, ())
    assert not world.cache.gate.is_open
    assert world.counters.total("loads_given_up") == 1


def test_a_load_whose_little_time_was_over_does_not_show_that_l2_fails(world: World) -> None:
    world.backend.gate.clear()
    world.mover.load(1, [A], [world.slot(0)], Hurried(first_seconds=5.0, seconds_per_chunk=0.0))
    assert eventually(lambda: world.backend.num_calls == 1)
    world.clock.advance(2.5)
    world.backend.error = TierUnavailableError("slow")
    world.backend.gate.set()
    world.finished()
    after_a_hurried_one = world.cache.is_up

    world.mover.load(2, [A], [world.slot(0)], Patience(first_seconds=5.0, seconds_per_chunk=0.0))
    world.finished()

    assert (after_a_hurried_one, world.cache.is_up) == (True, False)


class Hurried(Patience):
    """Of which half has been used up."""

    def seconds_left(self, num_arrived: int, seconds_passed: float) -> float:
        return self.first_seconds / 2
