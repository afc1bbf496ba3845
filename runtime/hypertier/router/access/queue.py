"""Whose turn it is: weighted fair queueing over tenants, first come first served within one.

Start-time fair queueing (Goyal, Vin, Cheng: Start-time Fair Queueing, SIGCOMM 1996): a tenant's next request
starts, in virtual time, when its last one would have been served at the tenant's share, and the earliest
start goes first. So a tenant with a thousand requests in line delays another by about one request of its own.
No clock, no sockets.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)

MIN_LINES = 64
MAX_RETRY_AFTER_SECONDS = 60


_NEW_PART = 1 / 8


class Waits:
    """How long requests waited lately: a mean that each further one moves by an eighth.

    As TCP follows round trips (https://www.rfc-editor.org/rfc/rfc6298, section 2, read 2026-12-03).
    """

    __slots__ = ("_mean",)

    def __init__(self) -> None:
        self._mean = -1.0

    def ended(self, seconds: float) -> None:
        """One's wait is over, for whatever reason."""
        self._mean = seconds if self._mean < 0 else self._mean + (seconds - self._mean) * _NEW_PART

    @property
    def retry_after_seconds(self) -> int:
        """When who found no place may find one: 1 to `MAX_RETRY_AFTER_SECONDS`."""
        return max(1, min(math.ceil(self._mean), MAX_RETRY_AFTER_SECONDS))


class _Waiting(NamedTuple):
    cost: float
    deadline: float


class _Line(Generic[T]):
    """One tenant's. No dataclass: mypyc compiles none that is generic to what can be imported."""

    __slots__ = ("finish", "priority", "ticket", "waiting", "weight")

    def __init__(self, weight: float, priority: int) -> None:
        self.weight = weight
        self.priority = priority
        self.waiting: OrderedDict[T, _Waiting] = OrderedDict()
        self.finish = 0.0  # virtual: when what was taken from it is served
        self.ticket = 0  # of its entry in the heap; 0 for none


class FairQueue(Generic[T]):
    """At most `size` requests, each in its tenant's line. Lower priorities go first, always."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lines: dict[Hashable, _Line[T]] = {}
        self._tenant_of: dict[T, Hashable] = {}
        self._heap: list[tuple[int, float, int, Hashable]] = []
        self._virtual: dict[int, float] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._tenant_of)

    def __iter__(self) -> Iterator[T]:
        """All that wait, each tenant's in its order."""
        for line in self._lines.values():
            yield from line.waiting

    def num_waiting(self, tenant: Hashable) -> int:
        """How many of a tenant's requests are in line."""
        line = self._lines.get(tenant)
        return len(line.waiting) if line is not None else 0

    def push(
        self,
        item: T,
        *,
        tenant: Hashable,
        weight: float,
        priority: int,
        cost: float,
        deadline: float,
        is_adopted: bool = False,
    ) -> T | None:
        """Put it in its tenant's line; `cost` in any unit, the same for all.

        Returns None, or the item that finds no place: where the queue is full, the newest of the line that is
        longest for its weight, among those of the lowest priority; it may be this one. One that `is_adopted`
        waited in another queue, and finds a place in a full one, too.
        """
        line = self._lines.get(tenant)
        if line is None:
            self._forget_empty_lines()
            line = self._lines[tenant] = _Line(weight, priority)
        line.weight, line.priority = weight, priority
        displaced: T | None = None
        if len(self) >= self._size and not is_adopted:
            longest = max(
                (other for other in self._lines.values() if other.waiting),
                key=lambda other: (other.priority, len(other.waiting) / other.weight),
            )
            own = (priority, (len(line.waiting) + 1) / weight)
            if longest is line or (longest.priority, len(longest.waiting) / longest.weight) <= own:
                return item
            displaced = next(reversed(longest.waiting))
            self.remove(displaced)
            self._lines[tenant] = line  # an emptied queue forgets its lines
        line.waiting[item] = _Waiting(cost, deadline)
        self._tenant_of[item] = tenant
        self._enter(tenant, line)
        return displaced

    @property
    def next_priority(self) -> int | None:
        """Of whose turn it is; None where nobody waits."""
        while self._heap:
            priority, _, ticket, tenant = self._heap[0]
            line = self._lines.get(tenant)
            if line is not None and line.ticket == ticket and line.waiting:
                return priority
            self._drop_first()
        return None

    def pop(self) -> T | None:
        """Whose turn it is; None where nobody waits."""
        while self._heap:
            priority, start, _, tenant = self._heap[0]
            line = self._drop_first()
            if line is None or not line.waiting:
                continue
            item, waiting = line.waiting.popitem(last=False)
            del self._tenant_of[item]
            self._virtual[priority] = max(self._virtual.get(priority, 0.0), start)
            line.finish = start + waiting.cost / line.weight
            if line.waiting:
                self._enter(tenant, line)
            self._tidy()
            return item
        return None

    def remove(self, item: T) -> bool:
        """It leaves; False where it does not wait."""
        tenant = self._tenant_of.pop(item, None)
        if tenant is None:
            return False
        del self._lines[tenant].waiting[item]
        self._tidy()
        return True

    def expired(self, now: float) -> Iterator[T]:
        """Take out all whose deadline has passed."""
        for line in list(self._lines.values()):
            # All of a line: one that came later may have less time.
            late = [item for item, waiting in line.waiting.items() if waiting.deadline <= now]
            for item in late:
                if self.remove(item):
                    yield item

    def _drop_first(self) -> _Line[T] | None:
        """Take the first entry out; its line, unless that has another one."""
        _, _, ticket, tenant = heappop(self._heap)
        line = self._lines.get(tenant)
        if line is None or line.ticket != ticket:
            return None
        line.ticket = 0
        return line

    def _enter(self, tenant: Hashable, line: _Line[T]) -> None:
        if not line.ticket:
            self._number += 1
            line.ticket = self._number
            start = max(self._virtual.get(line.priority, 0.0), line.finish)
            heappush(self._heap, (line.priority, start, line.ticket, tenant))

    def _forget_empty_lines(self) -> None:
        """Bound what is kept of tenants that no longer wait; each may come to one turn too early."""
        if len(self._lines) < 2 * self._size + MIN_LINES:
            return
        for tenant, line in list(self._lines.items()):
            if not line.waiting:
                del self._lines[tenant]

    def _tidy(self) -> None:
        """Where nobody waits, nobody is owed anything."""
        if not self._tenant_of:
            for line in self._lines.values():
                line.ticket, line.finish = 0, 0.0
            self._lines.clear()
            self._heap.clear()
            self._virtual.clear()
