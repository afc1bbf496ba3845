"""A switch that stops asking L2 while it fails, and asks again, rarely, until it answers."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0


class Circuit:
    """Closed while calls succeed. A failure opens it for a pause that doubles with each failed attempt.

    The pauses are spread by up to half, so that replicas do not return to a recovering L2 at the same
    instant. Used by several threads.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        random_ratio: Callable[[], float] = random.random,
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
        longest_pause_seconds: float = LONGEST_PAUSE_SECONDS,
    ) -> None:
        self._clock = clock
        self._random_ratio = random_ratio
        self._first_pause = first_pause_seconds
        self._longest_pause = longest_pause_seconds
        self._lock = threading.Lock()
        self._pause = 0.0  # 0.0 while closed
        self._retry_at = 0.0
        self._is_trying = False

    @property
    def is_closed(self) -> bool:
        """Whether calls may be made freely."""
        return self._pause == 0.0

    @property
    def may_try(self) -> bool:
        """Whether the pause is over and nobody has claimed the attempt yet."""
        return self._pause > 0.0 and not self._is_trying and self._clock() >= self._retry_at

    @property
    def retry_at(self) -> float:
        """When the pause is over, by the circuit's clock; of no meaning while closed."""
        return math.inf if self._is_trying else self._retry_at

    def admits(self) -> bool:
        """Whether to make a call now: always while closed, else one attempt at a time after the pause.

        Who is admitted reports back by `succeeded`, `failed` or `abstained`.
        """
        with self._lock:
            if self._pause == 0.0:
                return True
            if self._is_trying or self._clock() < self._retry_at:
                return False
            self._is_trying = True
            return True

    def succeeded(self) -> bool:
        """A call did what it should. Returns whether this closed the circuit."""
        with self._lock:
            was_open = self._pause > 0.0
            self._pause = 0.0
            self._is_trying = False
            return was_open

    def abstained(self) -> None:
        """A call told nothing about whether the others would work."""
        with self._lock:
            self._is_trying = False

    def failed(self) -> bool:
        """A call failed. Returns whether this opened the circuit.

        Calls that were under way when it opened fail together; they count as one.
        """
        with self._lock:
            opened = self._pause == 0.0
            if opened or self._is_trying:
                self._pause = min(max(2 * self._pause, self._first_pause), self._longest_pause)
                self._retry_at = self._clock() + self._pause * (1.0 + 0.5 * self._random_ratio())
            self._is_trying = False
            return opened
