"""The same session to the same replica, as long as that one is not overloaded."""

from __future__ import annotations

import math

import xxhash

from hypertier.router.openai import InferenceRequest
from hypertier.router.replicas import Replica, ReplicaSet
from hypertier.router.strategies.by_score import ByScore

# Consistent hashing with bounded loads, https://arxiv.org/abs/1608.01350 (read 2026-12-01): no replica
# takes more than this times the mean; below MIN_BOUND requests in flight an engine batches them and
# nothing is gained.
BOUND = 1.25
MIN_BOUND = 8


class Session(ByScore):
    """Rendezvous hashing of the session key with bounded load; without a key, the least loaded replica.

    When a replica comes or goes, only the sessions it wins or held move.
    """

    name = "session"

    def __init__(self, replicas: ReplicaSet) -> None:
        super().__init__()
        self.replicas = replicas

    def score(self, request: InferenceRequest, replica: Replica) -> float:
        """The session's draw for this replica, 0.0 to 1.0; minus 1 where the replica is full."""
        if request.session is None:
            return -float(self.load(replica))
        draw = (
            xxhash.xxh3_64_intdigest(replica.url.encode(), xxhash.xxh3_64_intdigest(request.session)) / 2**64
        )
        return draw - 1.0 if self._is_full(replica) else draw

    def reason(self, request: InferenceRequest, replica: Replica) -> str:
        """`session`, `spill` when the session's own replica was full, or `load` without a session."""
        if request.session is None:
            return "load"
        best = max(
            self.replicas.healthy, key=lambda r: (self.score(request, r) % 1.0, r.url), default=replica
        )
        return "session" if best is replica else "spill"

    def _is_full(self, replica: Replica) -> bool:
        fair = (self.in_flight + 1) / max(1, len(self.replicas.healthy))
        return self.load(replica) + 1 > max(MIN_BOUND, math.ceil(BOUND * fair))
