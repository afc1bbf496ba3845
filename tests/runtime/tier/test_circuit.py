"""A failing L2 is left alone, and tried again ever more rarely."""

from __future__ import annotations

from fakes_tier import FakeClock

from hypertier.tier.circuit import Circuit


def circuit(clock: FakeClock, random_ratio: float = 0.0) -> Circuit:
    return Circuit(clock, lambda: random_ratio, first_pause_seconds=1, longest_pause_seconds=8)


def test_a_closed_circuit_admits_everything() -> None:
    closed = circuit(FakeClock())

    assert closed.is_closed
    assert [closed.admits() for _ in range(3)] == [True] * 3
    assert not closed.may_try


def test_a_failure_opens_it_for_a_pause_then_one_attempt_is_admitted() -> None:
    clock = FakeClock()
    opened = circuit(clock)

    first, second = opened.failed(), opened.failed()
    during = opened.admits()
    clock.advance(1)

    assert (first, second, during) == (True, False, False)
    assert opened.may_try
    assert [opened.admits(), opened.admits()] == [True, False]
    assert not opened.may_try


def test_success_closes_it_and_says_so_once() -> None:
    clock = FakeClock()
    opened = circuit(clock)
    opened.failed()
    clock.advance(1)
    opened.admits()

    said = [opened.succeeded(), opened.succeeded()]

    assert said == [True, False]
    assert opened.is_closed


def test_pauses_double_up_to_the_longest() -> None:
    clock = FakeClock()
    opened = circuit(clock)
    pauses = []
    opened.failed()

    for _ in range(6):
        waited = 0
        while not opened.admits():
            clock.advance(1)
            waited += 1
        pauses.append(waited)
        opened.failed()

    assert pauses == [1, 2, 4, 8, 8, 8]


def test_calls_that_were_under_way_count_as_one_failure() -> None:
    clock = FakeClock()
    opened = circuit(clock)
    for _ in range(10):
        opened.failed()

    clock.advance(1)

    assert opened.may_try


def test_pauses_are_spread() -> None:
    clock = FakeClock()
    opened = circuit(clock, random_ratio=1.0)
    opened.failed()
    clock.advance(1.4)
    early = opened.may_try
    clock.advance(0.1)

    assert (early, opened.may_try) == (False, True)
