"""How sure a difference is. Rounds are what varies: the requests of one round share its caches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

MIN_ROUNDS, MAX_ROUNDS = 3, 31

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom:
# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm (read 2026-12-02).
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """One strategy's figure over the other's: the geometric mean over rounds, and the range that holds it
    with 95 %.
    """

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """`lower` or `higher` where the range leaves no doubt, else `no difference seen`."""
        if self.high < 1:
            return "lower"
        return "higher" if self.low > 1 else "no difference seen"


def ratio(values: Sequence[float], base: Sequence[float]) -> Ratio:
    """Compare round by round; values are above zero, of `MIN_ROUNDS` to `MAX_ROUNDS` rounds."""
    logs = [math.log(value / other) for value, other in zip(values, base, strict=True)]
    mean = fmean(logs)
    half = _T_95[len(logs) - 2] * stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
