"""Every replica in turn."""

from __future__ import annotations

from hypertier.router.openai import InferenceRequest
from hypertier.router.replicas import Replica
from hypertier.router.strategies.by_score import ByScore


class RoundRobin(ByScore):
    """Prefers the replica whose last pick is longest ago."""

    name = "roundrobin"

    def score(self, request: InferenceRequest, replica: Replica) -> float:
        """Minus the number of its last pick."""
        return -float(replica.last_picked)

    def reason(self, request: InferenceRequest, replica: Replica) -> str:
        """Always `turn`."""
        return "turn"
