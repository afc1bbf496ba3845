from __future__ import annotations

import math
import random

import pytest
from fakes_times import true_seconds
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.strategies.prefill_times import PrefillModel


def test_a_model_learns_the_constant_the_rate_and_attention_from_what_it_sees() -> None:
    model = PrefillModel()
    draw = random.Random(2)

    for _ in range(200):
        start = draw.randrange(0, 30_000)
        end = start + draw.randrange(100, 60_000)
        model.learn(start, end, true_seconds(start, end) * draw.lognormvariate(0, 0.1))

    for start, end in ((0, 500), (0, 8000), (0, 64_000), (60_000, 64_000)):
        assert model.seconds(start, end) == pytest.approx(true_seconds(start, end), rel=0.2)


def test_many_short_parts_of_unsure_length_do_not_hide_what_long_prompts_take() -> None:
    model = PrefillModel()
    draw = random.Random(2)

    for _ in range(400):
        size = draw.randrange(5_000, 100_000)
        if draw.random() < 0.85:  # a question on a document: how much is held is known to within a block
            model.learn(size - 350, size, true_seconds(size - draw.randrange(50, 350), size))
        else:
            model.learn(0, size, true_seconds(0, size) * draw.lognormvariate(0, 0.1))

    for size in (10_000, 30_000, 100_000):
        assert model.seconds(0, size) == pytest.approx(true_seconds(0, size), rel=0.15)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(1, 1e6), st.floats(1e-6, 1e4)), min_size=1, max_size=60)
)
def test_a_model_never_expects_less_than_nothing(seen: list[tuple[float, float, float]]) -> None:
    model = PrefillModel()

    for start, length, seconds in seen:
        model.learn(start, start + length, seconds)

    for start, length, _ in seen:
        expected = model.seconds(start, start + length)
        assert expected >= 0
        assert math.isfinite(expected)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
def test_a_model_takes_no_impossible_time(seconds: float) -> None:
    model = PrefillModel()

    model.learn(0, 100, seconds)

    assert model.num_observations == 0


def test_a_model_that_is_wrong_all_the_time_is_not_believed() -> None:
    model = PrefillModel()
    draw = random.Random(3)

    for _ in range(200):
        model.learn(0, 1000, math.exp(draw.choice([-4.0, 4.0])))

    assert not model.calibrated
