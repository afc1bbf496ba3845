"""Pools: models that share engines share a queue and slots, and no others do.

Which models share engines follows from what replicas list and from the splits of routes. It is found anew
where a list comes that no other replica has, where the last one of its kind goes, or where a split changes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

from hypertier.router.access.counts import PoolCounts
from hypertier.router.access.pool import Account, Pool, Turn
from hypertier.router.http.heads import Request
from hypertier.router.replicas.models import Models, asked_model
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State

T = TypeVar("T")

REST = b"\0"
"""Stands for the models that no replica lists, which go to those that did not say all."""


def call_soon(call: Callable[[], None]) -> object:
    """Do it once the loop has done what is at hand."""
    return asyncio.get_running_loop().call_soon(call)


def components(groups: Iterable[Collection[bytes]]) -> list[frozenset[bytes]]:
    """Names that stand in the same group, or in groups that share names.

    Takes about as long as all groups have names, together.
    """
    of: dict[bytes, set[bytes]] = {}
    found: dict[int, set[bytes]] = {}
    last = set[bytes]()  # where the next group, if much like this one, is found at once
    for group in groups:
        names = frozenset(group)
        rest = names - last
        met = [last] if len(rest) < len(names) else []
        known = of.keys() & rest
        rest -= known
        while known:
            met.append(of[next(iter(known))])
            known = known - met[-1]
        last = max(met, key=len, default=set[bytes]())
        for other in (*(one for one in met if one is not last), rest):
            last |= other
            of.update(dict.fromkeys(other, last))
            found.pop(id(other), None)
        if names:
            found[id(last)] = last
    return [frozenset(names) for names in found.values()]


def shared(models: Models) -> list[frozenset[bytes]]:
    """The models of each pool, `REST` in one of them where some replica did not say all."""
    lists = list(models.lists)
    groups: list[Collection[bytes]] = [*lists, *({name, *split} for name, split in models.split.items())]
    if models.num_silent or not lists:
        groups.append((REST,))
        if len(lists) == 1:  # one that does not say is taken to be like the others
            groups.append((REST, *lists[0]))
    groups += [(REST, *names) for names in models.open_lists]
    return components(groups)


ANY, GONE, UNLISTED, OTHER = "(any)", "(gone)", "(unlisted)", "(other)"
MAX_NAMED = 100
"""Pools that metrics name, in the order of their names, and as many that are no more; others are `OTHER`."""
MAX_NAME_BYTES = 256


def name_of(pool: Pool) -> str:
    """After the first of its models in alphabetical order, not an adapter: whichever router it is, and
    whatever adapters come and go.
    """
    first = min(pool.bases or pool.names - {REST}, default=None)
    return UNLISTED if first is None else text_of(first)


def text_of(model: bytes) -> str:
    """A model's name as metrics have it."""
    return model[:MAX_NAME_BYTES].decode("utf-8", "replace")


class Pools:
    """The pool of each request, kept in step with `models` and `replicas`; `ready` is called after a change.

    What is done `later` is done once, however many replicas change at a time.
    `size` requests may wait in each. A request that names no model, or one that nobody is known to have, may
    go to any engine: it waits in a line of its own and takes the first slot there is.
    """

    def __init__(
        self,
        replicas: ReplicaSet,
        models: Models,
        *,
        size: int,
        ready: Callable[[], None],
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        self._replicas = replicas
        self._models = models
        self._size = size
        self._ready = ready
        self._later = later
        self._is_due = False
        self._max_in_flight_per_replica: int | None = None
        self._num_routers = 1
        self._pools: list[Pool] = [Pool(size)]
        self._only: Pool | None = self._pools[0]
        self._anywhere = Pool(size)
        self._nowhere = Pool(size)
        """Of models whose replicas all left, and of what is still on replicas that are out."""
        self._by_model: dict[bytes, Pool] = {}
        self.counts: dict[str, PoolCounts] = {}
        """By name of pools that there are, or were."""
        self._accounts: dict[bytes, Account] = {}
        self._former: list[Account] = []
        """Of guests of pools that are no more."""
        self._pool_of: dict[Replica, Pool] = {}
        self._on: dict[Replica, Account] = {}
        """Of what is on each, wherever its model, or what it serves, went since."""
        self._key: object = None
        self._follow()
        replicas.watch(self._replica_changed)
        models.hear(self._models_changed)

    def __iter__(self) -> Iterator[Pool]:
        """All in which requests may wait."""
        yield from self._pools
        yield self._nowhere
        yield self._anywhere

    def __len__(self) -> int:
        """How many share no engine."""
        return len(self._pools)

    @property
    def num_waiting(self) -> int:
        """Requests that wait, in all of them."""
        return sum(len(pool.queue) for pool in self)

    @property
    def num_running(self) -> int:
        """Requests that have a slot."""
        return sum(pool.running for pool in self)

    def allow(self, max_in_flight_per_replica: int | None, num_routers: int) -> None:
        """So much from now on for all routers together, which have an equal part each; None for no limit."""
        self._max_in_flight_per_replica, self._num_routers = max_in_flight_per_replica, num_routers
        for pool in self:
            pool.limit = self.limit(pool.num_healthy)

    def limit(self, num_healthy: int) -> float:
        """Slots on so many healthy replicas; without one, none needs to wait for a slot."""
        most = self._max_in_flight_per_replica
        return (
            math.ceil(most * num_healthy / self._num_routers)
            if num_healthy and most is not None
            else math.inf
        )

    def account_of(self, request: Request) -> Account:
        """Where it has to wait, or would have to."""
        if self._only is not None:
            return self._only.guests
        model = asked_model(request, self._models.aliases)
        account = self._accounts.get(model) if model is not None else None
        return account if account is not None else self._new_account(model)

    def place(self, account: Account) -> Account | None:
        """The account on which it has a slot now; None where it has to wait."""
        pool = account.pool
        if pool is self._anywhere:
            return self._place_anywhere()
        if pool.running >= pool.limit or len(pool.queue):
            return None
        account.take()
        return account

    def account_on(self, replica: Replica) -> Account:
        """The account of what is on the replica, which goes where that goes."""
        account = self._on.get(replica)
        if account is None:
            account = self._on[replica] = Account(self._pool_of.get(replica, self._nowhere))
        return account

    def has_waiting(self, pool: Pool) -> bool:
        """Somebody waits who could have a slot of this pool."""
        return len(pool.queue) > 0 or len(self._anywhere.queue) > 0

    def next(self, pool: Pool) -> Turn | None:
        """Who has a slot of the pool now, and did not; None where nobody waits or there is none left."""
        if pool.running >= pool.limit or pool is self._anywhere:
            return None
        turn = pool.pop(self._anywhere.queue) if self._takes_guests(pool) else pool.queue.pop()
        if turn is not None:
            turn.account.take()
        return turn

    def _takes_guests(self, pool: Pool) -> bool:
        """It has engines, or no pool has."""
        return pool.num_healthy > 0 or not self._pool_of

    def _place_anywhere(self) -> Account | None:
        """In the pool that has most slots left, for its size."""
        if len(self._anywhere.queue):
            return None
        open_pools = [p for p in self._pools if p.running < p.limit and self._takes_guests(p)]
        if not open_pools:
            return None
        account = min(open_pools, key=lambda pool: pool.running / (pool.num_healthy or 1)).guests
        account.take()
        return account

    def _new_account(self, model: bytes | None) -> Account:
        pool = self._pool_of_model(model) if model is not None else self._anywhere
        if pool is None:
            rest = self._by_model.get(REST)
            return rest.guests if rest is not None else self._anywhere.guests
        if model is None:
            return pool.guests
        account = self._accounts[model] = Account(pool, model)
        return account

    def _pool_of_model(self, model: bytes) -> Pool | None:
        pool = self._by_model.get(model)
        return self._nowhere if pool is None and self._models.is_gone(model) else pool

    # What follows keeps step.

    def _replica_changed(self, replica: Replica, reason: str) -> None:
        self._models_changed(replica)

    def _models_changed(self, replica: Replica | None) -> None:
        if replica is not None:
            self._count(replica)
            account = self._on.get(replica)
            if account is not None:
                account.move(self._pool_of.get(replica, self._nowhere))
        if not self._is_due:
            self._is_due = True
            self._later(self._settle)

    def _settle(self) -> None:
        self._is_due = False
        for replica in [one for one, account in self._on.items() if not account.running]:
            if replica.state is State.LEAVING:
                del self._on[replica]
        if self._key != (self._models.version, self._models.num_silent > 0):
            self._follow()
        self._ready()

    def _follow(self) -> None:
        """Find the pools anew: who waits goes with its model, who is on a replica with that."""
        self._key = (self._models.version, self._models.num_silent > 0)
        found = shared(self._models)
        successors = _successors(self._pools, found)
        before = self._pools
        pools = self._pools = [Pool(self._size) for _ in found] or before[:1]
        taken: set[int] = set()
        for old in sorted(before, key=lambda pool: -len(pool.queue)):
            index = successors.get(old)
            if index is not None and index not in taken:
                taken.add(index)
                pools[index] = old  # who waits in the longest need not move
        for pool, names in zip(pools, found, strict=False):
            pool.names = names
        heirs = {old: pools[index] for old, index in successors.items()}
        self._by_model = _by_name((pool.names, pool) for pool in pools)
        models = self._models
        is_one = len(models.lists) < 2 and not models.split and not models.any_gone
        self._only = pools[0] if is_one else None
        self._name()
        self._move_accounts(before, heirs)
        self._move_waiting(before)
        self._pool_of.clear()
        for pool in (*before, *pools):
            pool.num_healthy = 0
            pool.limit = 0.0  # of those that are no more
        for pool in self:
            pool.limit = self.limit(0)
        for replica in self._replicas.healthy:
            self._count(replica)
        for replica, account in self._on.items():
            account.pool = self._pool_of.get(replica, self._nowhere)
            account.pool.running += account.running

    def _name(self) -> None:
        """Have each counted under its name, and forget the names of those that went first."""
        for pool in self._pools:
            pool.bases = set()
        for names, bases in self._models.bases.items():
            if names:
                self._by_model[next(iter(names))].bases |= bases
        of = {pool: name_of(pool) for pool in self._pools}
        named = set(sorted(set(of.values()))[:MAX_NAMED])
        of = {pool: name if name in named else OTHER for pool, name in of.items()}
        of |= {self._nowhere: GONE, self._anywhere: ANY}
        for pool, name in of.items():
            if name not in self.counts:
                self.counts[name] = PoolCounts(name)
            pool.counts = self.counts[name]
        former = [name for name in self.counts if name not in of.values()]
        counted = [name for name in former if self.counts[name].has_any]
        for name in {*former} - {*counted[-MAX_NAMED:]}:
            del self.counts[name]

    def _move_accounts(self, before: list[Pool], heirs: dict[Pool, Pool]) -> None:
        """Those of what is not sent yet."""
        kept = set(self._pools)
        guests = [*self._former, *(old.guests for old in before if old not in kept)]
        self._former = [account for account in guests if account.running]
        for account in self._former:
            account.pool = heirs.get(account.pool, self._nowhere)
        for model, account in list(self._accounts.items()):
            pool = self._pool_of_model(model)
            if pool is None:  # nobody has it any more: its requests are where they were
                pool = heirs.get(account.pool, self._nowhere)
            account.pool = pool
        for pool in self:
            pool.running = pool.guests.running
        for account in (*self._former, *self._accounts.values()):
            account.pool.running += account.running
        waited_for = {turn.account for pool in (*before, *self) for turn in pool.queue}
        for model, account in list(self._accounts.items()):
            is_used = account.running or account in waited_for
            if not is_used and self._pool_of_model(model) is None:
                del self._accounts[model]

    def _move_waiting(self, before: list[Pool]) -> None:
        moved: list[Turn] = []
        for pool in {*before, *self}:
            for turn in list(pool.queue):
                if turn.account.model is None:
                    turn.account = self.account_of(turn.arrival.request)
                if turn.account.pool is not pool:
                    pool.queue.remove(turn)
                    moved.append(turn)
        for turn in sorted(moved, key=lambda turn: turn.since):
            turn.account.pool.adopt(turn)

    def _count(self, replica: Replica) -> None:
        """It is one of its pool's healthy replicas, or no longer."""
        before = self._pool_of.pop(replica, None)
        now = self._pool_of_replica(replica) if replica.state is State.HEALTHY else None
        if now is not None:
            self._pool_of[replica] = now
        for pool, step in ((before, -1), (now, 1)):
            if pool is not None and before is not now:
                pool.num_healthy += step
                pool.limit = self.limit(pool.num_healthy)

    def _pool_of_replica(self, replica: Replica) -> Pool | None:
        """None of one that nothing is sent to: it serves nothing, or is still being asked for its models."""
        names = self._models.names_of(replica)
        name = REST if names is None else next(iter(names), None)
        return self._by_model.get(name) if name is not None else None


def _by_name(named: Iterable[tuple[frozenset[bytes], T]]) -> dict[bytes, T]:
    """Of each name, whose it is; there may be ten thousands."""
    found: dict[bytes, T] = {}
    for names, whose in named:
        found.update(dict.fromkeys(names, whose))
    return found


def _successors(before: Iterable[Pool], found: list[frozenset[bytes]]) -> dict[Pool, int]:
    """Of each pool before, the one that has most of its models now; one alone succeeds all."""
    index = _by_name((names, number) for number, names in enumerate(found))
    successors: dict[Pool, int] = {}
    for pool in before:
        number = next((index[name] for name in pool.names if name in index), None)
        if number is not None and not pool.names <= found[number]:
            shares = [len(pool.names & names) for names in found]
            number = shares.index(max(shares))
        if number is None and len(found) == 1:
            number = 0
        if number is not None:
            successors[pool] = number
    return successors
