"""What replicas have in hand: each one's prompts without a first token, and how much there is of all."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final

MEAN_SECONDS: Final = 10.0
"""The crowd, arrivals and the share of idle time are means over about this long."""
MIN_IDLE: Final = 0.05
RECENT_SECONDS: Final = 60.0
"""Work of late is forgotten in about this long."""


class Load:
    """What one replica has in hand. `pending`: seconds of prompts without a first token, oldest first.

    Of one that `is_gone` nothing counts any more.
    """

    __slots__ = (
        "drift",
        "in_flight",
        "is_gone",
        "number",
        "pending",
        "pending_seconds",
        "pending_size",
        "ready_at",
        "since",
        "slowness",
        "worked",
        "worked_at",
    )

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        self.in_flight = 0
        self.is_gone = False
        self.pending: dict[Hashable, float] = {}
        self.pending_seconds = 0.0
        self.pending_size = 0.0
        self.since = now
        self.drift = 0.0
        self.slowness = 1.0
        self.ready_at = now
        self.worked = 0.0
        self.worked_at = now

    def wait(self, now: float) -> float:
        """Seconds until it gets to a further prompt; a prompt that is late is expected to be so again."""
        if not self.pending:
            return 0.0
        first = next(iter(self.pending.values()))
        return self.pending_seconds - first + abs(first - (now - self.since))

    def work(self, now: float) -> float:
        """Seconds of prompts that it was sent of late."""
        return self.worked * math.exp(min(0.0, self.worked_at - now) / RECENT_SECONDS)


NOTHING, AS_BELIEVED, LESS, MORE = range(4)
"""What the time of a prompt says of how much of it was held."""


class Sent:
    """A request in flight: where it went, and what of its prompt is believed to be held there.

    `surprise` is what its time said of that.
    """

    __slots__ = ("at", "computing", "held", "load", "size", "streamed", "surprise")

    def __init__(self, load: Load, held: float, size: float, at: float, streamed: bool) -> None:
        self.load = load
        self.held = held
        self.size = size
        self.at = at
        self.streamed = streamed
        self.computing = True
        self.surprise = NOTHING

    @property
    def replica(self) -> int:
        """Where it went."""
        return self.load.number


class Traffic:
    """What waits, is computed and comes, over all replicas: means over about `MEAN_SECONDS`.

    What was before the first prompt is no part of `arriving`.
    """

    def __init__(self) -> None:
        self.crowd = 0.0
        """How many prompts wait for their first token at a replica."""
        self._busy = 0.0
        self._num_arrived = 0.0
        self._at = 0.0
        self._began = math.inf

    def pass_until(self, now: float, num_pending: int, num_computing: int, num_replicas: int) -> None:
        """Until `now` so many prompts waited, and so many replicas had one."""
        passed = now - self._at
        if passed > 0:
            keep = math.exp(-passed / MEAN_SECONDS)
            fresh = (1 - keep) / max(1, num_replicas)
            self.crowd = self.crowd * keep + fresh * num_pending
            self._busy = self._busy * keep + fresh * num_computing
            self._num_arrived *= keep
            self._at = now

    def arrived(self, now: float) -> None:
        """A prompt came, and all until `now` is told."""
        self._num_arrived += 1.0
        self._began = min(self._began, now)

    def arriving(self, now: float, num_replicas: int) -> float:
        """Prompts a second that a replica gets, over the share of time in which it has none to compute."""
        if self._began > now:
            return 0.0
        share = -math.expm1(-max(1.0, now - self._began) / MEAN_SECONDS)
        each = self._num_arrived / (MEAN_SECONDS * share * max(1, num_replicas))
        return each / max(MIN_IDLE, 1.0 - self._busy / share)
