"""The same session to the same replica, as long as that one is not overloaded."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Collection, Sequence
from typing import ClassVar

import xxhash

from hypertier.router.openai import InferenceRequest
from hypertier.router.replicas import Replica, ReplicaSet
from hypertier.router.strategies.by_score import ByLoad, Choice

# Consistent hashing with bounded loads, https://arxiv.org/abs/1608.01350 (read 2026-12-01): no replica
# takes more than this times the mean; below MIN_BOUND requests in flight an engine batches them and
# nothing is gained.
BOUND = 1.25
MIN_BOUND = 8
POINTS = 64
"""Of each replica on the ring: shares differ by an eighth, and a choice costs no more with many replicas."""


class Session(ByLoad):
    """Consistent hashing of the session key with bounded load; without a key, the least loaded replica.

    When a replica comes or goes, only the sessions it wins or held move.
    """

    name: ClassVar[str] = "session"

    def __init__(self, replicas: ReplicaSet) -> None:
        super().__init__()
        self.replicas = replicas
        self._built_for: tuple[Replica, ...] = ()
        self._points: list[int] = []
        self._owners: list[Replica] = []

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """The first replica behind the session's place on the ring that is not full, of the candidates' mean.

        The reason is `session`, `spill` where the session's own replica was full, `load` without a session.
        """
        if request.session is None:
            return Choice(self.least_loaded(candidates), "load")
        healthy = self.replicas.healthy
        if healthy is not self._built_for:
            self._build(healthy)
        loads = self.in_flight
        among: Collection[Replica] = candidates
        if candidates is not healthy:  # those of another model, say, have loads of their own
            among = set(candidates)
            loads = sum(map(self.load, candidates))
        bound = max(MIN_BOUND, math.ceil(BOUND * (loads + 1) / len(candidates)))
        place = bisect(self._points, xxhash.xxh3_64_intdigest(request.session))
        owners = self._owners
        own: Replica | None = None
        for at in range(place, place + len(owners)):
            replica = owners[at % len(owners)]
            if among is not candidates and replica not in among:
                continue
            own = own or replica
            if self.load(replica) < bound:
                return Choice(replica, "session" if replica is own else "spill")
        return Choice(self.least_loaded(candidates), "spill")

    def _build(self, healthy: tuple[Replica, ...]) -> None:
        ring = sorted(
            (xxhash.xxh3_64_intdigest(replica.url.encode(), seed), number)
            for number, replica in enumerate(healthy)
            for seed in range(POINTS)
        )
        self._points = [point for point, _ in ring]
        self._owners = [healthy[number] for _, number in ring]
        self._built_for = healthy
