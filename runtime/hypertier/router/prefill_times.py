"""How long an engine takes for a part of a prompt, learned from the first tokens that the router sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

MIN_OBSERVATIONS: Final = 20
MAX_ERROR: Final = 1.0
"""Mean error, as a logarithm, above which predictions are no longer believed: a factor of e."""


class PrefillModel:
    """Seconds that an engine takes for a part of a prompt, learned: a constant, the size, and attention.

    seconds(start, end) = c + l * (end - start) + q * (end**2 - start**2) / 2, none of the three below zero.
    Recent observations count more. One that is far off counts as one that is off by `LIMIT` times: a prompt
    that the replica no longer held, or a neighbour's that this router did not see.
    """

    LIMIT = 3.0
    DECAY = 0.995
    FIT_EVERY = 8

    def __init__(self) -> None:
        self.num_observations = 0
        self.error = 0.0
        self._weights = (0.0, 0.0, 0.0)
        self._scale = 1.0
        self._mean_seconds = 0.0
        self._sums = [0.0] * 9  # of the 3 x 3 normal equations: six products of features, three with the time

    @property
    def calibrated(self) -> bool:
        """Its predictions can be believed."""
        return self.num_observations >= MIN_OBSERVATIONS and self.error < MAX_ERROR

    def seconds(self, start: float, end: float) -> float:
        """Time for the part from `start` to `end` of a prompt; 0.0 before the first observation."""
        constant, linear, quadratic = self._weights
        return constant + (linear + quadratic * (start + end) / 2) * (end - start)

    def learn(self, start: float, end: float, seconds: float) -> None:
        """An engine took `seconds` for the part from `start` to `end`."""
        if not (end > start >= 0 and 0 < seconds < math.inf):
            return
        if self.num_observations == 0:
            self._scale = end
            self._mean_seconds = seconds
        else:
            predicted = self.seconds(start, end)
            if predicted > 0:
                off = math.log(seconds / predicted)
                self.error += 0.05 * (abs(off) - self.error)
            if self.num_observations >= MIN_OBSERVATIONS:
                seconds = min(max(seconds, predicted / self.LIMIT), predicted * self.LIMIT)
        self._mean_seconds += 0.02 * (seconds - self._mean_seconds)
        size = (end - start) / self._scale
        area = size * (start + end) / (2 * self._scale)
        # Errors count relative to the time and a part of the mean: how much of a prompt is held is known to
        # within some bytes, which is all of a short part and nothing of a long one, and short parts of long
        # prompts are many. Were they to count by their own time, they would decide what attention costs.
        weight = 1.0 / ((seconds + 0.3 * self._mean_seconds) ** 2 + 1e-6)
        features = (1.0, size, area, size * size, size * area, area * area)
        fresh = (*features, seconds, size * seconds, area * seconds)
        self._sums = [self.DECAY * old + weight * new for old, new in zip(self._sums, fresh, strict=True)]
        self.num_observations += 1
        if self.num_observations <= MIN_OBSERVATIONS or self.num_observations % self.FIT_EVERY == 0:
            constant, linear, quadratic = _least_squares(self._sums)
            self._weights = constant, linear / self._scale, quadratic / self._scale**2


def _least_squares(sums: Sequence[float]) -> tuple[float, float, float]:
    """Solve the normal equations; a feature whose weight would be negative is left out."""
    one, a, b, aa, ab, bb, y, ay, by = sums
    matrix = ((one, a, b), (a, aa, ab), (b, ab, bb))
    right = (y, ay, by)
    used = [0, 1, 2]
    while True:
        found = _solve([[matrix[i][j] for j in used] for i in used], [right[i] for i in used])
        lowest = min(range(len(used)), key=found.__getitem__)
        if found[lowest] >= 0 or len(used) == 1:
            break
        del used[lowest]
    weights = [0.0, 0.0, 0.0]
    for i, weight in zip(used, found, strict=True):
        weights[i] = max(weight, 0.0)
    return weights[0], weights[1], weights[2]


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss' elimination for a symmetric matrix; a hair on the diagonal makes it solvable."""
    n = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(n):
        rows[i][i] += 1e-9 * matrix[i][i] + 1e-300
    for i in range(n):
        for below in range(i + 1, n):
            factor = rows[below][i] / rows[i][i]
            for j in range(i, n + 1):
                rows[below][j] -= factor * rows[i][j]
    found = [0.0] * n
    for i in reversed(range(n)):
        rest = sum(rows[i][j] * found[j] for j in range(i + 1, n))
        found[i] = (rows[i][n] - rest) / rows[i][i] if abs(rows[i][i]) > 1e-290 else 0.0
    return found
