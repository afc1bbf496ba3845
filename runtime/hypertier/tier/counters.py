"""What the tier counts: one number per name, added to by several threads."""

from __future__ import annotations

import threading
from collections import Counter


class Counters:
    """Sums since the last `take` and since the start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: Counter[str] = Counter()
        self._total: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        """Add to a name."""
        with self._lock:
            self._recent[name] += amount
            self._total[name] += amount

    def take(self) -> dict[str, int]:
        """Return what was added since the last call, and forget it."""
        with self._lock:
            recent = dict(self._recent)
            self._recent.clear()
            return recent

    def total(self, name: str) -> int:
        """Return everything added to a name since the start."""
        return self._total[name]
