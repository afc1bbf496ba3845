"""What is counted of keys, tenants and pools; `metrics` makes series of it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

WAIT_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300)


class AccessCounts:
    """Plain numbers. Labels of tenants are bounded, see `tenants.MAX_LABELS`."""

    def __init__(self) -> None:
        self.refusals: Counter[str] = Counter()
        self.admitted: Counter[str] = Counter()
        self.refused: Counter[tuple[str, str]] = Counter()
        self.tokens: Counter[str] = Counter()
        self.reloads: Counter[tuple[str, str]] = Counter()


class PoolCounts:
    """How long requests of the pools called `name` waited for their turn, and by cause who had none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waits = [0] * (len(WAIT_SECONDS) + 1)
        self.wait_sum = 0.0
        self.unserved: Counter[str] = Counter()

    @property
    def has_any(self) -> bool:
        """Some request waited."""
        return any(self.waits) or bool(self.unserved)

    def waited(self, seconds: float) -> None:
        """A request had its turn after so long."""
        self.waits[bisect_left(WAIT_SECONDS, seconds)] += 1
        self.wait_sum += seconds
