"""Taking a replica out of the choice by what becomes of its requests, whatever its health check says.

As Envoy's outlier detection
(https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/outlier, read 2026-12-01): so many
failures in a row, a time out of the choice that grows with each, and never so many replicas out that those
left are crushed. What a client or an overload is to blame for (4xx, 429, 503) is no failure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from hypertier.router.replicas.replicas import Replica, ReplicaSet, State

FAILURES_IN_A_ROW: Final = 5
BAR_SECONDS: Final = 10.0
MAX_BAR_SECONDS: Final = 300.0
MIN_HEALTHY_RATIO: Final = 0.5
"""Of the listed replicas of a model so many stay in the choice, however they answer: a fault of all is not
one's."""
MIN_STALLED: Final = 2
"""A single prompt may be a very long one."""


@dataclass(slots=True)
class _Record:
    failures: int = 0
    num_bars: int = 0
    bar_ended_at: float = 0.0
    heard_at: float = field(default=0.0)


class Outliers:
    """Counts failures and successes, and ejects; `now` is a clock in seconds.

    A replica that comes back is on probation: its next failure takes it out again for twice as long, its
    next success ends that. `stall_seconds` of silence while `MIN_STALLED` streams or more wait for their
    first token count as dead, too. Where others do the work `without_any`, all that stall may be out: who
    waits there loses time. `groups` of replicas can take one's place, each for a part of what it serves: all
    are one, where nothing is said.
    """

    def __init__(
        self,
        replicas: ReplicaSet,
        *,
        stall_seconds: float,
        now: Callable[[], float],
        without_any: bool = False,
        groups: Callable[[Replica], Iterable[Collection[Replica]]] | None = None,
    ) -> None:
        self.num_withheld = 0
        self._groups = groups
        self._without_any = without_any
        self._replicas = replicas
        self._stall_seconds = stall_seconds
        self._now = now
        self._records: dict[Replica, _Record] = {}
        replicas.watch(self._changed)

    def succeeded(self, replica: Replica) -> None:
        """A request was answered there; with 4xx, too."""
        record = self._records.get(replica)
        if record is not None:
            record.failures = 0
            if self._now() > record.bar_ended_at + BAR_SECONDS:
                record.num_bars = 0

    def failed(self, replica: Replica, status: int = 0) -> None:
        """A request failed there: by `status`, or 0 where no answer or a part of one came."""
        if status == 503 or (status and status < 500):
            return
        record = self._records.setdefault(replica, _Record())
        record.failures += 1
        if record.failures >= FAILURES_IN_A_ROW:
            self._bar(replica, record, "failures")

    def sweep(self, heard: Collection[Replica]) -> None:
        """Once a second: `heard` are the replicas of which an answer grew since the last time."""
        if not self._stall_seconds:
            return
        now = self._now()
        for replica in self._replicas.healthy:
            record = self._records.setdefault(replica, _Record(heard_at=now))
            num_streams = sum(request.streamed for request in replica.waiting)
            if replica in heard or num_streams < MIN_STALLED or not record.heard_at:
                record.heard_at = now
            elif now - record.heard_at > self._stall_seconds:
                record.heard_at = 0.0
                self._bar(replica, record, "stalled")

    def _bar(self, replica: Replica, record: _Record, cause: str) -> None:
        if replica.state is not State.HEALTHY:
            return
        may_miss_all = self._without_any and cause == "stalled"
        if not may_miss_all and self._is_needed(replica):
            self.num_withheld += 1
            return
        seconds = min(MAX_BAR_SECONDS, BAR_SECONDS * 2**record.num_bars)
        record.num_bars += 1
        record.bar_ended_at = replica.barred_until = self._now() + seconds
        record.failures = FAILURES_IN_A_ROW - 1
        self._replicas.eject(replica, cause, is_silent=cause == "stalled")

    def _is_needed(self, replica: Replica) -> bool:
        """Without it too few were left of those that serve what it does."""
        groups = self._groups(replica) if self._groups is not None else (self._replicas.by_url.values(),)
        return any(_is_small(group) for group in groups)

    def _changed(self, replica: Replica, reason: str) -> None:
        if replica.state is State.LEAVING:
            self._records.pop(replica, None)


def _is_small(group: Collection[Replica]) -> bool:
    """One healthy replica less would be too few."""
    num_listed = sum(replica.state is not State.LEAVING for replica in group)
    num_healthy = sum(replica.state is State.HEALTHY for replica in group)
    return num_healthy - 1 < max(1, MIN_HEALTHY_RATIO * num_listed)


class RetryBudget:
    """Lets retries be a share of requests, so that what fails everywhere is not sent everywhere.

    Of about the last ten seconds: `ratio` of the requests, and `RESERVE` where there are few
    (as Finagle's, https://twitter.github.io/finagle/guide/Clients.html, read 2026-12-01).
    """

    RESERVE = 100.0
    KEPT_RATIO = 0.9  # a second later

    def __init__(self, ratio: float) -> None:
        self.num_refused = 0
        self._ratio = ratio
        self._requests = 0.0
        self._retries = 0.0

    def request(self) -> None:
        """A request came."""
        self._requests += 1

    @property
    def is_spent(self) -> bool:
        """One more would be too many."""
        return self._retries + 1 > self._ratio * self._requests + self.RESERVE

    def has(self) -> bool:
        """One more would be within it; where not, that counts as refused."""
        if self.is_spent:
            self.num_refused += 1
            return False
        return True

    def take(self) -> bool:
        """One retry; False where the budget is spent."""
        if not self.has():
            return False
        self._retries += 1
        return True

    def tick(self) -> None:
        """A second passed."""
        self._requests *= self.KEPT_RATIO
        self._retries *= self.KEPT_RATIO
