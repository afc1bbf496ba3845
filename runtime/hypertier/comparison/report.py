"""How a comparison is told: a table of figures, what differs for sure, and the same for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from hypertier.comparison.compare import QUANTILES, Figures, Report
from hypertier.comparison.statistics import Ratio
from hypertier.figures import table

NAMES = {"ttft_p50": "TTFT p50", "ttft_p90": "TTFT p90"}
VERDICTS = {"lower": "sooner", "higher": "later", "no difference seen": "not sure"}


def lines(report: Report) -> Iterator[str]:
    """The figures, the ratios with their ranges, and what that means."""
    base = report.figures[0].strategy
    yield heading(report)
    yield ""
    yield from table([heads(), *map(cells, report.figures)])
    yield ""
    yield from table(
        [
            (f"over {base} (95 %)", *(NAMES[name] for name in QUANTILES)),
            *(
                (each.strategy, *(_told(each.ratios[name]) for name in QUANTILES))
                for each in report.figures[1:]
            ),
        ]
    )
    if report.failures:
        yield ""
        yield from report.failures


def heading(report: Report) -> str:
    """What was sent where, and for how long."""
    plan = report.plan
    return (
        f"{report.url}, {report.model}: {plan.rounds} rounds of {plan.workload.requests} requests each, "
        f"{report.seconds:.0f} s, seed {plan.workload.seed}"
    )


def heads() -> tuple[str, ...]:
    """What stands above the columns of `cells`."""
    return ("strategy", *(NAMES[name] for name in QUANTILES), "cached", "requests/s", "busiest", "failed")


def as_dict(report: Report) -> dict[str, Any]:
    """The same for programs."""
    return {
        "url": report.url,
        "model": report.model,
        "rounds": report.plan.rounds,
        "workload": asdict(report.plan.workload),
        "seconds": round(report.seconds, 3),
        "base": report.figures[0].strategy,
        "strategies": [
            {
                "strategy": each.strategy,
                **{f"{name}_seconds": round(value, 4) for name, value in each.seconds.items()},
                "cached_ratio": _rounded(each.cached_ratio),
                "requests_per_second": round(each.requests_per_second, 3),
                "largest_share": _rounded(each.largest_share),
                "failed": each.num_failed,
                "ratios": {
                    name: {
                        "mean": round(ratio.mean, 4),
                        "low": round(ratio.low, 4),
                        "high": round(ratio.high, 4),
                        "verdict": ratio.verdict,
                    }
                    for name, ratio in each.ratios.items()
                },
            }
            for each in report.figures
        ],
        "failures": list(report.failures),
    }


def cells(each: Figures) -> tuple[str, ...]:
    """A strategy's row of the table."""
    return (
        each.strategy,
        *(f"{each.seconds[name]:.3f} s" for name in QUANTILES),
        _percent(each.cached_ratio),
        f"{each.requests_per_second:.1f}",
        _percent(each.largest_share),
        str(each.num_failed),
    )


def _told(ratio: Ratio) -> str:
    return f"{ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f}), {VERDICTS[ratio.verdict]}"


def _percent(share: float | None) -> str:
    return "not told" if share is None else f"{100 * share:.0f} %"


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
