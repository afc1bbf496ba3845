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
CALM_IDLE: Final = 0.3
"""Turns to come are not taken to meet a replica that is idle for less: such a crowd does not last."""
MIN_ENDING: Final = 0.05
"""At least such a share of prompts is taken to be a session's last, which so has 19 turns to come at most."""


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


class Outlook:
    """What is to come at a replica that was sent `times` as much of late as replicas on the mean.

    Prompts that go on where one ended come where that was: their share of what comes, `going_on`, is in
    proportion to what a replica was sent, and the rest comes to all alike. `rate` are prompts a second,
    `busy` the share of time in which a replica computes, and `wait` a prompt's seconds in its queue, on the
    mean of all replicas.
    """

    __slots__ = ("_busy", "_going_on", "_mean_work", "_rate", "_turns", "_unit", "_wait", "least")

    def __init__(
        self, rate: float, busy: float, wait: float, going_on: float, mean_work: float, mean_seconds: float
    ) -> None:
        self._rate = rate
        self._busy = busy
        self._wait = wait
        self._going_on = going_on
        self._mean_work = max(0.0, mean_work)
        self._unit = mean_seconds + 1e-9  # a prompt more or less of what was sent says nothing
        self._turns = going_on / max(MIN_ENDING, 1.0 - going_on)
        self.least = 1.0 - going_on
        """No replica's `times` are fewer."""

    def times(self, work: float) -> float:
        """How many prompts come to a replica that was sent so much work, over the mean of all."""
        return self.least + self._going_on * (max(0.0, work) + self._unit) / (self._mean_work + self._unit)

    def arriving(self, times: float) -> float:
        """Prompts a second there, over the share of time in which it has none to compute."""
        return self._rate * times / max(MIN_IDLE, 1.0 - self._busy * times)

    def later(self, times: float) -> float:
        """Seconds that a prompt's turns to come wait there, and have others wait.

        The wait in a queue is as its rate over its share of idle time, and one prompt more has all that come
        wait longer: the derivative of rate * wait is wait * (1 + 1 / idle).
        """
        mean_idle = max(CALM_IDLE, 1.0 - self._busy)
        idle = max(CALM_IDLE, 1.0 - self._busy * times)
        return self._turns * self._wait * times * mean_idle / idle * (1.0 + 1.0 / idle)


class Traffic:
    """What waits, is computed and comes, over all replicas: means over about `MEAN_SECONDS`.

    What was before the first prompt is no part of its `outlook`.
    """

    def __init__(self) -> None:
        self.crowd = 0.0
        """How many prompts wait for their first token at a replica."""
        self.mean_seconds = 0.0
        """Of a prompt."""
        self._square = 0.0
        self._going_on = 0.0
        self._num_told = 0.0
        self._worked = 0.0
        self._worked_at = 0.0
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

    def arrived(self, now: float, seconds: float, goes_on: bool) -> None:
        """A prompt of so many seconds came, and all until `now` is told; it may go on where one ended."""
        self._num_arrived += 1.0
        self._began = min(self._began, now)
        self.mean_seconds += 0.02 * (seconds - self.mean_seconds)
        self._square += 0.02 * (seconds * seconds - self._square)
        self._num_told = min(self._num_told + 1.0, 50.0)
        self._going_on += (float(goes_on) - self._going_on) / self._num_told
        self._worked = self._work(now) + seconds
        self._worked_at = now

    def outlook(self, now: float, num_replicas: int) -> Outlook:
        """By what came until now.

        The wait is the one seen, by Little's law, but no longer than that of a queue which goes on like this
        for good, by Pollaczek's and Khinchine's: a crowd passes.
        """
        num = max(1, num_replicas)
        rate = busy = wait = 0.0
        if self._began <= now:
            share = -math.expm1(-max(1.0, now - self._began) / MEAN_SECONDS)
            rate = self._num_arrived / (MEAN_SECONDS * share * num)
            busy = self._busy / share
            seen = max(0.0, self.crowd / share - busy) / max(rate, 1e-9)
            wait = min(seen, rate * self._square / (2.0 * max(CALM_IDLE, 1.0 - busy)))
        return Outlook(rate, busy, wait, self._going_on, self._work(now) / num, self.mean_seconds)

    def _work(self, now: float) -> float:
        return self._worked * math.exp(min(0.0, self._worked_at - now) / RECENT_SECONDS)
