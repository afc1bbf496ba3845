"""One pool: the requests that wait for its engines, and how many are there."""

from __future__ import annotations

import math

from hypertier.router.access.counts import PoolCounts
from hypertier.router.access.queue import FairQueue, Waits
from hypertier.router.access.tenants import Tenant
from hypertier.router.admission import Arrival, Grant


class Turn:
    """A request that was let in and waits in the `pool` of its `account`, `since` then, until its `deadline`.

    It `is_urgent` where its client waits for less than the queue would have it.
    """

    __slots__ = (
        "account",
        "arrival",
        "deadline",
        "grant",
        "is_urgent",
        "num_tokens",
        "pool",
        "since",
        "tenant",
    )

    def __init__(
        self,
        account: Account,
        arrival: Arrival,
        grant: Grant,
        tenant: Tenant,
        num_tokens: int,
        since: float,
    ) -> None:
        self.account = account
        self.pool = account.pool
        self.arrival = arrival
        self.grant = grant
        self.tenant = tenant
        self.num_tokens = num_tokens
        self.since = since
        self.deadline = since
        self.is_urgent = False


class Account:
    """The slots that some requests have, and of which pool, now: those on one replica; before they are sent,
    those of one `model`, or of any.
    """

    __slots__ = ("model", "pool", "running")

    def __init__(self, pool: Pool, model: bytes | None = None) -> None:
        self.pool = pool
        self.model = model
        self.running = 0

    def take(self) -> None:
        """One more is on an engine."""
        self.running += 1
        self.pool.running += 1

    def free(self) -> None:
        """One is no longer."""
        self.running -= 1
        self.pool.running -= 1

    def move(self, pool: Pool) -> None:
        """All are in this pool."""
        self.pool.running -= self.running
        self.pool = pool
        pool.running += self.running


class Pool:
    """The engines of models that share some. Of the requests for them `running` have a slot, of `limit`.

    Without a healthy engine there is no limit, since none would be sent. `names` are the models, and `bases`
    those that are no adapters. What is for any engine counts as one of the `guests` where it got a slot.
    """

    __slots__ = (
        "bases",
        "counts",
        "guest_is_next",
        "guests",
        "limit",
        "names",
        "num_healthy",
        "queue",
        "running",
        "waits",
    )

    def __init__(self, size: int) -> None:
        self.queue: FairQueue[Turn] = FairQueue(size)
        self.waits = Waits()
        self.counts = PoolCounts("")
        self.names: frozenset[bytes] = frozenset()
        self.bases: set[bytes] = set()
        self.guests = Account(self)
        self.running = 0
        self.num_healthy = 0
        self.limit = math.inf
        self.guest_is_next = False

    def push(self, turn: Turn, *, is_adopted: bool = False) -> Turn | None:
        """Let it wait here; returns who has to go for it, see `FairQueue.push`."""
        entry = turn.tenant.entry
        return self.queue.push(
            turn,
            tenant=turn.tenant.name,
            weight=entry.weight,
            priority=entry.priority,
            cost=max(1.0, turn.num_tokens),
            deadline=turn.deadline,
            is_adopted=is_adopted,
        )

    def adopt(self, turn: Turn) -> None:
        """Let it wait here, who waited elsewhere: nobody has to go."""
        turn.pool = self
        self.push(turn, is_adopted=True)

    def pop(self, others: FairQueue[Turn]) -> Turn | None:
        """Whose turn it is, of its own and of `others`: the lower priority's, else by turns."""
        own = self.queue
        if not len(others):
            return own.pop()
        mine, theirs = own.next_priority, others.next_priority
        is_guest = mine is None or theirs is None or theirs < mine or (theirs == mine and self.guest_is_next)
        self.guest_is_next = not is_guest
        turn = (others if is_guest else own).pop()
        if is_guest and turn is not None:
            turn.account = self.guests
        return turn
