"""How long an engine takes for a part of a prompt, learned from the first tokens that the router sees."""

from __future__ import annotations

import math
from typing import Final

MIN_OBSERVATIONS: Final = 20
MAX_ERROR: Final = 1.0
"""Mean error, as a logarithm, above which predictions are no longer believed: a factor of e."""
_NUM_SUMS: Final = 9


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
        # Of the 3 x 3 normal equations: six products of features, three with the time.
        self._sums = [0.0] * _NUM_SUMS

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
        fresh = [1.0, size, area, size * size, size * area, area * area]
        fresh += [seconds, size * seconds, area * seconds]
        sums, decay = self._sums, self.DECAY
        for i in range(_NUM_SUMS):
            sums[i] = decay * sums[i] + weight * fresh[i]
        self.num_observations += 1
        if self.num_observations <= MIN_OBSERVATIONS or self.num_observations % self.FIT_EVERY == 0:
            constant, linear, quadratic = _least_squares(self._sums)
            self._weights = constant, linear / self._scale, quadratic / self._scale**2


def _least_squares(sums: list[float]) -> tuple[float, float, float]:
    """Solve the normal equations; a feature whose weight would be negative is left out."""
    one, a, b, aa, ab, bb, y, ay, by = sums
    matrix = [[one, a, b], [a, aa, ab], [b, ab, bb]]
    right = [y, ay, by]
    used = [0, 1, 2]
    while True:
        found = _solve(matrix, right, used)
        lowest = 0
        for i in range(1, len(found)):
            if found[i] < found[lowest]:
                lowest = i
        if found[lowest] >= 0 or len(used) == 1:
            break
        del used[lowest]
    weights = [0.0, 0.0, 0.0]
    for i in range(len(used)):
        weights[used[i]] = max(found[i], 0.0)
    return weights[0], weights[1], weights[2]


def _solve(matrix: list[list[float]], right: list[float], used: list[int]) -> list[float]:
    """Gauss' elimination for the rows and columns in use of a symmetric matrix.

    A hair on the diagonal makes it solvable. Plain loops: compiled, they cost a third of comprehensions.
    """
    n = len(used)
    rows: list[list[float]] = []
    for i in used:
        whole, row = matrix[i], [0.0] * (n + 1)
        for j in range(n):
            row[j] = whole[used[j]]
        row[n] = right[i]
        rows.append(row)
    for i in range(n):
        rows[i][i] += 1e-9 * rows[i][i] + 1e-300
    for i in range(n):
        pivot_row = rows[i]
        for below in range(i + 1, n):
            row = rows[below]
            factor = row[i] / pivot_row[i]
            for j in range(i, n + 1):
                row[j] -= factor * pivot_row[j]
    found = [0.0] * n
    for i in range(n - 1, -1, -1):
        row = rows[i]
        rest = 0.0
        for j in range(i + 1, n):
            rest += row[j] * found[j]
        found[i] = (row[n] - rest) / row[i] if abs(row[i]) > 1e-290 else 0.0
    return found
