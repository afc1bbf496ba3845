"""L2 is asked while loading from it beats computing, and not otherwise."""

from __future__ import annotations

import pytest
from fakes_tier import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from hypertier.tier.gate import FIRST_SAMPLE_SECONDS, LONGEST_SAMPLE_SECONDS, Average, Gate, GateMode
from hypertier.tier.transfers import Patience


def gate(clock: FakeClock, mode: GateMode = "auto", load: float = 0.0, compute: float = 0.0) -> Gate:
    return Gate(mode, load, compute, clock)


@pytest.mark.parametrize(
    ("load", "compute", "is_open"),
    [(0.0, 0.0, True), (1.0, 0.0, True), (0.0, 1.0, True), (1.0, 2.0, True), (2.0, 1.0, False)],
    ids=["nothing known", "load known", "compute known", "load cheaper", "compute cheaper"],
)
def test_priors_decide_until_something_is_measured(load: float, compute: float, is_open: bool) -> None:
    assert gate(FakeClock(), load=load, compute=compute).is_open is is_open


def test_it_closes_when_loading_costs_more_than_computing() -> None:
    slow = gate(FakeClock())
    slow.observe_compute(10, 1.0)

    slow.observe_load(10, 0.9)
    while_cheaper = slow.is_open
    for _ in range(10):
        slow.observe_load(10, 2.0)

    assert (while_cheaper, slow.is_open) == (True, False)


def test_a_little_cheaper_does_not_open_it_again() -> None:
    closed = gate(FakeClock(), load=2.0, compute=1.0)

    closed.observe_sample(1, 0.9)
    after_a_little = closed.is_open
    closed.observe_sample(1, 0.7)

    assert (after_a_little, closed.is_open) == (False, True)


def test_a_busier_gpu_opens_it() -> None:
    closed = gate(FakeClock(), load=2.0, compute=1.0)

    for _ in range(20):
        closed.observe_compute(10, 40.0)

    assert closed.is_open


def test_samples_are_asked_for_while_it_is_closed_once_per_pause() -> None:
    clock = FakeClock()
    closed = gate(clock)
    closed.observe_load(1, 2.0)
    closed.observe_compute(1, 1.0)
    at_once = closed.take_sample()
    clock.advance(FIRST_SAMPLE_SECONDS)

    later = [closed.take_sample(), closed.take_sample()]

    assert (at_once, later) == (False, [True, False])
    assert not gate(clock).take_sample()


def test_what_priors_alone_have_closed_asks_for_samples_at_once() -> None:
    believed, known = gate(FakeClock(), load=2.0, compute=1.0), gate(FakeClock(), load=2.0, compute=1.0)
    known.observe_sample(1, 3.0)

    asked = [believed.take_sample(), believed.take_sample(), believed.take_first_sample()]

    assert asked == [True, False, True]
    assert not believed.take_first_sample()
    assert not known.take_first_sample()
    assert not gate(FakeClock(), load=1.0, compute=2.0).take_first_sample()
    assert not gate(FakeClock(), "closed", load=2.0, compute=1.0).take_first_sample()


def test_an_l2_that_disappoints_again_and_again_is_sampled_ever_more_rarely() -> None:
    clock = FakeClock()
    flapping = gate(clock, compute=1.0)
    pauses = []

    for _ in range(8):
        flapping.observe_sample(1, 5.0)
        waited = 0
        while not flapping.take_sample():
            clock.advance(1)
            waited += 1
        pauses.append(waited)
        flapping.observe_sample(1, 0.1)
        assert flapping.is_open

    assert pauses[0] == FIRST_SAMPLE_SECONDS
    assert pauses[1:3] == [2 * FIRST_SAMPLE_SECONDS, 4 * FIRST_SAMPLE_SECONDS]
    assert pauses[-1] == LONGEST_SAMPLE_SECONDS


def test_after_a_good_time_it_starts_with_short_pauses_again() -> None:
    clock = FakeClock()
    recovered = gate(clock, compute=1.0)
    for _ in range(3):
        recovered.observe_sample(1, 5.0)
        recovered.observe_sample(1, 0.1)
    clock.advance(3600)

    recovered.observe_sample(1, 5.0)
    clock.advance(FIRST_SAMPLE_SECONDS)

    assert recovered.take_sample()


@pytest.mark.parametrize(("mode", "is_open"), [("open", True), ("closed", False)], ids=["open", "closed"])
def test_it_can_be_forced(mode: GateMode, is_open: bool) -> None:
    clock = FakeClock()
    forced = gate(clock, mode, load=1.0 if is_open else 0.1, compute=0.5)
    forced.observe_lookup(100.0)
    clock.advance(1000)

    assert forced.is_open is is_open
    assert forced.min_chunks == 1
    assert not forced.take_sample()


def test_a_prefix_must_make_up_for_the_lookup() -> None:
    judged = gate(FakeClock(), load=0.1, compute=0.2)
    before = judged.min_chunks

    judged.observe_lookup(0.45)

    assert (before, judged.min_chunks) == (1, 5)


def test_an_average_prefers_what_is_recent_and_forgets_its_prior() -> None:
    average = Average(prior=100.0)

    for _ in range(50):
        average.add(4, 2.0)

    assert average.value == pytest.approx(0.5, rel=0.01)


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(1e-6, 1e3)), min_size=1, max_size=50))
def test_an_average_lies_between_the_best_and_the_worst(samples: list[tuple[int, float]]) -> None:
    average = Average()

    for num_chunks, seconds in samples:
        average.add(num_chunks, seconds)

    costs = [seconds / num_chunks for num_chunks, seconds in samples]
    assert average.value is not None
    assert min(costs) * 0.999 <= average.value <= max(costs) * 1.001


def test_loads_are_bounded_by_what_computing_takes_and_before_that_is_known_by_a_few_deadlines() -> None:
    bounded = Gate(clock=FakeClock(), load_deadline_seconds=0.2)
    before = bounded.patience
    bounded.observe_compute(10, 1.0)

    assert (before, bounded.patience) == (Patience(1.0, 0.0), Patience(0.2, 0.1))


def test_a_gate_that_is_held_open_bounds_nothing() -> None:
    held = Gate("open", prior_compute_seconds=0.1, clock=FakeClock(), load_deadline_seconds=0.2)

    assert held.patience is None


def test_lookups_that_take_long_and_find_nothing_close_it() -> None:
    clock = FakeClock()
    costly = Gate(clock=clock, allowed_debt_seconds=0.4)
    opened = []
    for _ in range(6):
        costly.observe_compute(10, 1.0)
        costly.observe_lookup(0.13)
        opened.append(costly.is_open)

    assert opened == [True, True, True, False, False, False]


def test_lookups_within_two_percent_of_computing_cost_nothing() -> None:
    cheap = Gate(clock=FakeClock(), allowed_debt_seconds=0.4)

    for _ in range(1000):
        cheap.observe_compute(10, 1.0)
        cheap.observe_lookup(0.019)

    assert cheap.is_open
    assert cheap.debt_seconds < 0


def test_what_loads_save_pays_for_lookups_but_not_without_limit() -> None:
    saving = Gate(clock=FakeClock(), allowed_debt_seconds=0.4)
    saving.observe_compute(10, 1.0)
    for _ in range(100):
        saving.observe_lookup(0.15)
        saving.observe_load(10, 0.2)
    while_it_saves = saving.is_open

    num_more = 0
    while saving.is_open:
        saving.observe_lookup(0.15)
        num_more += 1

    assert while_it_saves
    assert num_more == 6  # 0.4 s of credit, 0.4 s of debt


def test_a_load_that_brought_nothing_is_owed_in_full() -> None:
    hanging = Gate(clock=FakeClock(), allowed_debt_seconds=0.3, prior_compute_seconds=1.0)

    hanging.observe_load(1, 0.2, num_useful=0)
    after_one = hanging.is_open
    hanging.observe_load(1, 0.2, num_useful=0)

    assert (after_one, hanging.is_open) == (True, False)


def test_after_a_load_that_brought_nothing_a_sample_alone_opens_it() -> None:
    hanging = gate(FakeClock(), compute=0.1)
    hanging.observe_load(1, 0.2, num_useful=0)  # broken off: whole, it would have taken who knows how long
    for _ in range(20):
        hanging.observe_compute(10, 40.0)
    by_computing = hanging.is_open

    hanging.observe_sample(4, 1.0)

    assert (by_computing, hanging.is_open) == (False, True)


def test_loads_that_bring_nothing_are_owed_and_tell_nothing_of_how_long_loading_takes() -> None:
    barren = Gate(clock=FakeClock(), allowed_debt_seconds=0.4)
    barren.observe_compute(10, 1.0)
    barren.observe_load(10, 0.1)

    told = barren.load_seconds_per_chunk
    for _ in range(20):
        barren.observe_failure(0.1)

    assert barren.load_seconds_per_chunk == told
    assert not barren.is_open
    assert barren.debt_seconds > 0.4


def test_after_a_debt_a_sample_alone_opens_it_with_a_new_account() -> None:
    clock = FakeClock()
    indebted = Gate(clock=clock, allowed_debt_seconds=0.4)
    indebted.observe_compute(10, 1.0)
    indebted.observe_load(10, 0.1)
    for _ in range(20):
        indebted.observe_lookup(0.2)
    indebted.observe_compute(10, 1.0)
    by_computing = indebted.is_open

    clock.advance(FIRST_SAMPLE_SECONDS)
    asked = indebted.take_sample()
    indebted.observe_sample(1, 0.01)

    assert (by_computing, asked, indebted.is_open) == (False, True, True)
    assert indebted.debt_seconds == 0.0
