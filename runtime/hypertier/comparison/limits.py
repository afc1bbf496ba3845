"""Limits of `hypertier compare`: each strategy but the first, which is the baseline, is held to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypertier.comparison.compare import QUANTILES, Figures
from hypertier.limits import Limit, Verdict, judge, judge_ratio

BY_CHANCE = "chance alone may explain this: more --rounds tell"
FIGURES = (
    *(f"{name}_seconds" for name in QUANTILES),
    "cached_ratio",
    "requests_per_second",
    "largest_share",
    "failed",
)


def verdicts(limits: Sequence[Limit], figures: Sequence[Figures]) -> Iterator[Verdict]:
    """Hold every strategy to every limit; times to the baseline by their ratio, round by round."""
    base = figures[0]
    for each in figures[1:]:
        for limit in limits:
            yield _verdict(limit, each, base)


def _verdict(limit: Limit, each: Figures, base: Figures) -> Verdict:
    ratio = each.ratios.get(limit.figure.removesuffix("_seconds"))
    if not limit.of_baseline or ratio is None:
        return judge(limit, _value(each, limit.figure), _value(base, limit.figure), each.strategy)
    range_ = f"({ratio.low:.2f} to {ratio.high:.2f})"
    verdict = judge_ratio(limit, ratio.mean, f"{each.strategy} {limit.figure}", range_)
    if ratio.low <= limit.factor <= ratio.high:
        return replace(verdict, line=f"{verdict.line}\n  {BY_CHANCE}")
    return verdict


def _value(each: Figures, figure: str) -> float | None:
    name = figure.removesuffix("_seconds")
    if name in each.seconds:
        return each.seconds[name]
    return {
        "cached_ratio": each.cached_ratio,
        "requests_per_second": each.requests_per_second,
        "largest_share": each.largest_share,
        "failed": float(each.num_failed),
    }[figure]
