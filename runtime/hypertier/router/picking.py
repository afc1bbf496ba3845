"""Choosing one replica for one request."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hypertier.router.openai import InferenceRequest, prefix_bytes
from hypertier.router.replicas import Replica, ReplicaSet
from hypertier.router.residency import Residency
from hypertier.router.strategies import Strategy


@dataclass(frozen=True, slots=True)
class Pick:
    """The chosen replica, why, and how many bytes of the prompt it is believed to have cached."""

    replica: Replica
    reason: str
    matched_bytes: int


def best(scores: Sequence[float], candidates: Sequence[Replica]) -> Replica:
    """The highest score; a tie goes to the least loaded, then to the one not picked for longest."""
    top = max(scores)
    tied = [replica for score, replica in zip(scores, candidates, strict=True) if score == top]
    return min(tied, key=lambda replica: (replica.in_flight, replica.last_picked))


class Picker:
    """Picks among healthy replicas by a strategy, and remembers what was sent where."""

    def __init__(self, strategy: Strategy, replicas: ReplicaSet, residency: Residency) -> None:
        self.strategy = strategy
        self.replicas = replicas
        self.residency = residency
        self._num_picks = 0

    def pick(self, request: InferenceRequest, excluded: Collection[Replica] = ()) -> Pick | None:
        """Choose; None when no healthy replica is left outside `excluded`."""
        candidates = self.candidates(excluded)
        if not candidates:
            return None
        scores = [self.strategy.score(request, replica) for replica in candidates]
        replica = best(scores, candidates)
        reason = self.strategy.reason(request, replica) if len(candidates) > 1 else "only"
        matched = prefix_bytes(self.residency.num_prefix_blocks(replica.url, request.block_hashes))
        self._num_picks += 1
        replica.last_picked = self._num_picks
        self.residency.record(replica.url, request.block_hashes)
        return Pick(replica, reason, matched)

    def candidates(self, excluded: Collection[Replica]) -> Sequence[Replica]:
        """The replicas that `pick` would choose among."""
        healthy = self.replicas.healthy
        return [replica for replica in healthy if replica not in excluded] if excluded else healthy
