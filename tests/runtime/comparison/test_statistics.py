from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hypertier.comparison.statistics import MAX_ROUNDS, MIN_ROUNDS, ratio

ROUNDS = st.integers(MIN_ROUNDS, MAX_ROUNDS)
SECONDS = st.floats(1e-4, 1e4)


def test_a_strategy_that_takes_half_as_long_in_every_round_is_half() -> None:
    found = ratio([1.0, 2.0, 0.5], [2.0, 4.0, 1.0])

    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert found.verdict == "lower"


def test_the_range_is_that_of_students_t() -> None:
    # Logs of 0, 1 and 2: mean 1, deviation 1, so 4.303 / sqrt(3) to either side.
    found = ratio([1.0, math.e, math.e**2], [1.0, 1.0, 1.0])

    assert math.log(found.mean) == pytest.approx(1.0)
    assert math.log(found.high) == pytest.approx(1 + 4.303 / math.sqrt(3))
    assert math.log(found.low) == pytest.approx(1 - 4.303 / math.sqrt(3))
    assert found.verdict == "no difference seen"


@given(st.data(), ROUNDS)
def test_what_is_sooner_one_way_is_later_the_other_way(data: st.DataObject, rounds: int) -> None:
    one = data.draw(st.lists(SECONDS, min_size=rounds, max_size=rounds))
    other = data.draw(st.lists(SECONDS, min_size=rounds, max_size=rounds))
    there, back = ratio(one, other), ratio(other, one)

    assert there.low <= there.mean <= there.high
    assert there.mean * back.mean == pytest.approx(1.0)
    assert {there.verdict, back.verdict} in ({"lower", "higher"}, {"no difference seen"})


@given(st.lists(SECONDS, min_size=MIN_ROUNDS, max_size=MAX_ROUNDS), st.floats(0.1, 10.0))
def test_a_machine_that_is_slower_for_a_round_changes_nothing(base: list[float], factor: float) -> None:
    assume(factor != 1.0)
    slower = [*base[:-1], base[-1] * factor]

    assert ratio(slower, slower).mean == pytest.approx(ratio(base, base).mean) == 1.0
