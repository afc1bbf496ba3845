"""Replicas of several models before a gate with a queue, without a socket and under a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hypertier.router.access.gate import AccessGate, _Lease
from hypertier.router.access.pool import Pool
from hypertier.router.admission import Arrival, Grant
from hypertier.router.api.openai import Refusal
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.heads import Request
from hypertier.router.replicas.models import Models, asked_model
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State
from hypertier.spec.access import Access, Queue

CHAT = b"/v1/chat/completions"
PER_REPLICA = 2


def request(model: str | None) -> Request:
    named = b'"model": "%b", ' % model.encode() if model is not None else b""
    return Request(b"POST", CHAT, b'{%b"messages": []}' % named, has_body=True)


class World:
    """Replicas, what they serve, a gate with a queue, and what became of each request that came.

    Requests are numbered. Those that were sent are in `running` until they end, or in `held` while they wait
    for a replica. Names among `adapters` are listed as such.
    """

    def __init__(
        self, per_replica: int = PER_REPLICA, *, size: int = 1024, adapters: Collection[str] = ()
    ) -> None:
        self.adapters = adapters
        self.now = 1000.0
        self.is_busy = False
        self.due: list[Callable[[], None]] = []
        self.replicas = ReplicaSet(lambda: self.now)
        self.models = Models(self.replicas, {"alias": "a"})
        self.gate = AccessGate(
            Access(queue=Queue(max_in_flight_per_replica=per_replica, size=size)),
            authenticates=False,
            replicas=self.replicas,
            models=self.models,
            clock=lambda: self.now,
            now=lambda: self.now,
            later=lambda call: self.due.append(call),
        )
        assert self.gate.pools is not None
        self.pools = self.gate.pools
        self.arrivals: list[Arrival] = []
        self.running: dict[int, Grant] = {}
        self.on: dict[int, Replica | None] = {}
        """Where each of them is, None where no replica was there."""
        self.held: dict[int, Grant] = {}
        self.sent: list[int] = []
        self.refused: list[int] = []
        self._num_replicas = 0

    # What the gate calls.

    def proceed(self, arrival: Arrival, grant: Grant | None) -> None:
        assert grant is not None
        assert isinstance(grant.slot, _Lease)
        assert grant.slot.account is not None
        pool = grant.slot.account.pool
        assert pool.running <= pool.limit
        number = self.arrivals.index(arrival)
        self.sent.append(number)
        self.running[number] = grant
        self.on[number] = None
        self.send(number)

    def refuse(self, arrival: Arrival, refusal: Refusal) -> None:
        self.refused.append(self.arrivals.index(arrival))

    # What happens.

    def ask(self, model: str | None) -> int:
        arrival = Arrival(self, None, request(model), b"id")
        self.arrivals.append(arrival)
        self.gate.admit(arrival)
        return len(self.arrivals) - 1

    def send(self, number: int, failed: Replica | None = None) -> None:
        """To the replica that has least of those that serve its model, but not to the one that failed."""
        model = asked_model(self.arrivals[number].request, self.models.aliases)
        found = self.replicas.healthy
        for name in self.models.split.get(model, [model])[:1] if model is not None else []:
            found = tuple(self.models.servers(name, found))
        found = tuple(replica for replica in found if replica is not failed)
        if found:
            replica = min(found, key=self.num_on)
            self._give_up_replica(number)
            self.on[number] = replica
            self.replicas.start(replica, 0)
            slot = self.running[number].slot
            assert slot is not None
            slot.sent(replica)

    def end(self, number: int) -> None:
        grant = self.running.pop(number, None) or self.held.pop(number)
        self._give_up_replica(number)
        assert grant.released is not None
        grant.released()

    def fail(self, number: int) -> None:
        """Its replica failed before it answered, and it goes to another."""
        self.send(number, self.on[number])

    def hold(self, number: int) -> None:
        grant = self.held[number] = self.running.pop(number)
        self._give_up_replica(number)
        assert grant.slot is not None
        grant.slot.leave()

    def _give_up_replica(self, number: int) -> None:
        replica = self.on.pop(number, None)
        if replica is not None:
            self.replicas.finish(replica)

    def wake(self, number: int) -> None:
        self.running[number] = self.held.pop(number)
        self.on[number] = None
        self.send(number)
        if self.on[number] is None:
            self.hold(number)

    def come(self, *names: str) -> Replica:
        """A replica that says that it serves these; without any, one that says nothing."""
        self._num_replicas += 1
        addresses = [replica.address for replica in self.listed]
        self.replicas.replace([*addresses, Address(f"10.0.0.{self._num_replicas}", 8000)])
        replica = self.listed[-1]
        self.replicas.admit(replica)
        self.models.expect(replica)
        if names:
            self.say(replica, names)
        self.models.asked(replica)
        self.settle()
        return replica

    def say(self, replica: Replica, names: Sequence[str]) -> None:
        self.models.learn(
            replica, [{"id": n, "parent": "base" if n in self.adapters else None} for n in names]
        )
        self.settle()

    def split(self, split: dict[bytes, tuple[bytes, ...]]) -> None:
        self.models.split = split
        self.settle()

    def leave(self, replica: Replica) -> None:
        self.replicas.replace(one.address for one in self.listed if one is not replica)
        self.settle()

    @property
    def listed(self) -> list[Replica]:
        return [one for one in self.replicas.by_url.values() if one.state is not State.LEAVING]

    def settle(self) -> None:
        """The loop's next round, unless it `is_busy`: what is due is done."""
        due, self.due = ([], self.due) if self.is_busy else (self.due, [])
        for call in due:
            call()

    # What is to be seen.

    @property
    def waiting(self) -> list[int]:
        known = {*self.sent, *self.refused}
        return [number for number, one in enumerate(self.arrivals) if number not in known and not one.gone]

    def num_on(self, replica: Replica) -> int:
        """Requests on the replica."""
        return sum(other is replica for other in self.on.values())

    def pool_of(self, model: str) -> Pool:
        return self.pools.account_of(request(model)).pool
