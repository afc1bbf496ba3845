from __future__ import annotations

import pytest

from hypertier.comparison.compare import Figures
from hypertier.comparison.limits import FIGURES, verdicts
from hypertier.comparison.statistics import Ratio
from hypertier.limits import read_limits

SECONDS = {"ttft_p50": 0.1, "ttft_p90": 0.2}
BASE = Figures("roundrobin", SECONDS, None, 4.0, 0.5, 0, {})
OTHER = Figures(
    "session",
    {"ttft_p50": 0.1, "ttft_p90": 0.3},
    0.5,
    5.0,
    0.5,
    1,
    {"ttft_p50": Ratio(1.0, 0.9, 1.1), "ttft_p90": Ratio(1.5, 1.3, 1.7)},
)


def test_times_are_held_to_the_baseline_by_their_ratio_and_its_range() -> None:
    limits = read_limits(["ttft_p90_seconds > 1.1 * baseline", "ttft_p50_seconds > 1.05*baseline"], FIGURES)

    sure, unsure = verdicts(limits, [BASE, OTHER])

    assert (sure.crossed, unsure.crossed) == (True, False)
    assert sure.line == (
        "failed: session ttft_p90_seconds is 1.5 * baseline (1.30 to 1.70); fails if > 1.1 * baseline"
    )
    assert unsure.line.splitlines()[1:] == ["  chance alone may explain this: more --rounds tell"]
    assert len(sure.line.splitlines()) == 1


def test_what_the_first_strategy_did_not_tell_is_no_baseline() -> None:
    limits = read_limits(["cached_ratio < 0.9 * baseline", "cached_ratio < 0.4"], FIGURES)

    assert [each.crossed for each in verdicts(limits, [BASE, OTHER])] == [None, False]


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_can_be_limited(figure: str) -> None:
    (verdict,) = verdicts(read_limits([f"{figure} >= 0"], FIGURES), [BASE, OTHER])

    assert verdict.crossed is True
