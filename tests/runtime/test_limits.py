from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import ConfigError
from hypertier.limits import COMPARISONS, Verdict, judge, read_limits, status, told

FIGURES = ("ttft_p90_seconds", "cached_ratio")


@pytest.mark.parametrize(
    ("text", "sign", "factor", "of_baseline"),
    [
        ("ttft_p90_seconds > 1.1 * baseline", ">", 1.1, True),
        ("ttft_p90_seconds>baseline", ">", 1.0, True),
        (" ttft_p90_seconds >= 0.5 ", ">=", 0.5, False),
        ("ttft_p90_seconds<=1e-3*baseline", "<=", 0.001, True),
    ],
)
def test_a_limit_is_a_figure_a_sign_and_a_number_or_a_baseline(
    text: str, sign: str, factor: float, of_baseline: bool
) -> None:
    (limit,) = read_limits([text], FIGURES)

    assert (limit.figure, limit.sign) == ("ttft_p90_seconds", sign)
    assert (limit.factor, limit.of_baseline) == (factor, of_baseline)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--fail-if is empty; expected FIGURE, one of > >= < <=, then NUMBER"),
        ("ttft_p90_seconds == 1", "expected FIGURE, one of"),
        ("ttft_p90_seconds > 10 %", "expected FIGURE, one of"),
        ("ttft_p90_seconds > baseline * 1.1", "expected FIGURE, one of"),
        ("ttft_p90_secnds > 1", "expected ttft_p90_seconds?"),
        ("latency > 1", "expected a figure: cached_ratio, ttft_p90_seconds"),
    ],
)
def test_what_is_no_limit_is_refused_with_what_is_one(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_limits([text], FIGURES)


@given(
    value=st.floats(0, 1e6),
    baseline=st.floats(0, 1e6),
    factor=st.floats(0.001, 1000),
    sign=st.sampled_from([*COMPARISONS]),
)
def test_a_limit_is_crossed_where_the_comparison_holds(
    value: float, baseline: float, factor: float, sign: str
) -> None:
    (limit,) = read_limits([f"cached_ratio {sign} {factor!r} * baseline"], FIGURES)

    verdict = judge(limit, value, baseline)

    assert verdict.crossed == COMPARISONS[sign](value, factor * baseline)


def test_the_line_says_the_figure_and_the_limit() -> None:
    of_baseline, absolute = read_limits(["ttft_p90_seconds > 1.1 * baseline", "cached_ratio < 0.5"], FIGURES)

    assert judge(of_baseline, 0.3, 0.2, "prefixaware").line == (
        "failed: prefixaware ttft_p90_seconds is 0.3; fails if > 0.22 (1.1 * 0.2)"
    )
    assert judge(absolute, 0.75, None).line == "kept: cached_ratio is 0.75; fails if < 0.5"


def test_a_figure_that_was_not_measured_has_not_kept_its_limit() -> None:
    (limit,) = read_limits(["cached_ratio < 0.9 * baseline"], FIGURES)

    assert judge(limit, None, 0.5) == Verdict(
        None, "cannot tell: cached_ratio was not measured, for --fail-if 'cached_ratio < 0.9 * baseline'"
    )
    assert judge(limit, 0.5, None).crossed is None


@pytest.mark.parametrize(
    ("crossed", "expected"),
    [((), 0), ((False, False), 0), ((False, True, None), 1), ((None, False), 2)],
    ids=str,
)
def test_the_status_is_of_the_worst(crossed: tuple[bool | None, ...], expected: int) -> None:
    assert status([Verdict(each, "") for each in crossed]) == expected


def test_what_fails_is_told_last() -> None:
    lines = told([Verdict(True, "failed"), Verdict(None, "cannot tell"), Verdict(False, "kept")])

    assert next(lines) == "kept"
