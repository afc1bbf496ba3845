"""The same session to the same replica, as long as that one is not overloaded."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State
from hypertier.router.strategies.by_load import ByLoad
from hypertier.router.strategies.ring import Ring
from hypertier.router.strategies.strategy import Choice

# Consistent hashing with bounded loads, https://arxiv.org/abs/1608.01350 (read 2026-12-01): no replica
# takes more than this times the mean; below MIN_BOUND requests in flight an engine batches them and
# nothing is gained.
BOUND = 1.25
MIN_BOUND = 8


class Session(ByLoad):
    """Consistent hashing of the session key with bounded load; without a key, the least loaded replica.

    When a replica comes or goes, only the sessions it wins or held move.
    """

    @property
    def name(self) -> str:
        """As in the endpoint's manifest."""
        return "session"

    def __init__(self, replicas: ReplicaSet) -> None:
        super().__init__()
        self.replicas = replicas
        self._ring = Ring()
        for replica in replicas.healthy:
            self._ring.add(replica)
        replicas.watch(self._changed)

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """The first replica behind the session's place on the ring that is not full, of the candidates' mean.

        The reason is `session`, `spill` where the session's own replica was full, `load` without a session.
        """
        if request.session is None:
            return Choice(self.least_loaded(candidates), "load")
        healthy = self.replicas.healthy
        loads = self.in_flight
        among: Collection[Replica] = candidates
        if candidates is not healthy:  # those of another model, say, have loads of their own
            among = set(candidates)
            loads = sum(map(self.load, candidates))
        bound = max(MIN_BOUND, math.ceil(BOUND * (loads + 1) / len(candidates)))
        own: Replica | None = None
        for replica in self._ring.walk(request.session):
            if among is not candidates and replica not in among:
                continue
            own = own or replica
            if self.load(replica) < bound:
                return Choice(replica, "session" if replica is own else "spill")
        return Choice(self.least_loaded(candidates), "spill")

    def _changed(self, replica: Replica, reason: str) -> None:
        if replica.state is State.HEALTHY:
            self._ring.add(replica)
        elif replica in self._ring:
            self._ring.remove(replica)
