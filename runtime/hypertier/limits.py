"""Limits on measured figures, for a pipeline that is to fail: `ttft_p90_seconds > 1.1 * baseline`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypertier.errors import ConfigError
from hypertier.spec.suggest import nearest

FAILED_STATUS, UNTOLD_STATUS = 1, 2
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_LIMIT = re.compile(
    rf"\s*(?P<figure>[\w-]+)\s*(?P<sign>[<>]=?)\s*"
    rf"(?:(?P<number>{_NUMBER})|(?:(?P<factor>{_NUMBER})\s*\*\s*)?(?P<baseline>baseline))\s*"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A figure by its name in JSON, and the bound that fails: `factor`, or so many times the baseline's."""

    text: str
    figure: str
    sign: str
    factor: float
    of_baseline: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a limit: whether it was crossed, None where no figure tells, and a line to print."""

    crossed: bool | None
    line: str


def read_limits(texts: Sequence[str], figures: Collection[str]) -> tuple[Limit, ...]:
    """Read what `--fail-if` was given; a limit is of one of `figures`.

    Raises:
        ConfigError: no such comparison, or no such figure; names what was given.
    """
    return tuple(_read(text, figures) for text in texts)


def _read(text: str, figures: Collection[str]) -> Limit:
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ConfigError(
            "--fail-if",
            text,
            "FIGURE, one of > >= < <=, then NUMBER, baseline or NUMBER * baseline, "
            "such as 'ttft_p90_seconds > 1.1 * baseline'",
        )
    name = found["figure"]
    if name not in figures:
        meant = nearest(name, sorted(figures))
        raise ConfigError(
            "--fail-if", text, f"{meant}?" if meant else f"a figure: {', '.join(sorted(figures))}"
        )
    factor = float(found["number"] or found["factor"] or 1)
    return Limit(text, name, found["sign"], factor, found["baseline"] is not None)


def judge(limit: Limit, value: float | None, baseline: float | None, whose: str = "") -> Verdict:
    """Hold a figure to its limit; `whose` it is stands in the line.

    A figure that was not told, of the run or of its baseline, has neither kept the limit nor crossed it.
    """
    name = f"{whose} {limit.figure}".strip()
    if value is None:
        return Verdict(None, f"cannot tell: {name} was not measured, for --fail-if {limit.text!r}")
    if not limit.of_baseline:
        return _verdict(limit, value, limit.factor, f"{name} is {value:.4g}", f"{limit.factor:g}")
    if baseline is None:
        return Verdict(None, f"cannot tell: the baseline has no {limit.figure}, for --fail-if {limit.text!r}")
    bound = limit.factor * baseline
    return _verdict(
        limit, value, bound, f"{name} is {value:.4g}", f"{bound:.4g} ({limit.factor:g} * {baseline:.4g})"
    )


def judge_ratio(limit: Limit, ratio: float, name: str, remark: str) -> Verdict:
    """Hold a ratio to the baseline's figure to a limit `of_baseline`; the `remark` stands behind it."""
    told = f"{name} is {ratio:.3g} * baseline {remark}"
    return _verdict(limit, ratio, limit.factor, told, f"{limit.factor:g} * baseline")


def _verdict(limit: Limit, value: float, bound: float, told: str, bound_told: str) -> Verdict:
    crossed = COMPARISONS[limit.sign](value, bound)
    return Verdict(crossed, f"{'failed' if crossed else 'kept'}: {told}; fails if {limit.sign} {bound_told}")


def status(verdicts: Sequence[Verdict]) -> int:
    """The exit status: 0 where all were kept, 1 where one was crossed, 2 where one could not be told."""
    if any(each.crossed for each in verdicts):
        return FAILED_STATUS
    return UNTOLD_STATUS if any(each.crossed is None for each in verdicts) else 0


def told(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The lines, those that fail last, where they are seen."""
    yield from (each.line for each in sorted(verdicts, key=lambda each: each.crossed is not False))


def flat_numbers(read: object) -> dict[str, float] | None:
    """The numbers of a mapping from an earlier run; None where it is no mapping."""
    if not isinstance(read, dict):
        return None
    return {
        str(name): float(value)
        for name, value in read.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
