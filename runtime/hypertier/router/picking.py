"""Choosing one replica for one request."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from hypertier.router.openai import InferenceRequest
from hypertier.router.replicas import Replica, ReplicaSet
from hypertier.router.strategies import Strategy
from hypertier.router.strategies.by_score import Choice


class Picker:
    """Picks among healthy replicas by a strategy, and tells it what was sent where."""

    def __init__(self, strategy: Strategy, replicas: ReplicaSet) -> None:
        self.strategy = strategy
        self.replicas = replicas
        self._num_picks = 0

    def pick(
        self, ticket: Hashable, request: InferenceRequest, now: float, excluded: Collection[Replica] = ()
    ) -> Choice | None:
        """Choose, and take it as sent; None when no healthy replica is left outside `excluded`."""
        candidates = self.candidates(excluded)
        if not candidates:
            return None
        choice = self.strategy.choose(request, candidates, now)
        if len(candidates) == 1:
            choice = choice._replace(reason="only")
        self._num_picks += 1
        choice.replica.last_picked = self._num_picks
        self.strategy.sent(ticket, request, choice, now)
        return choice

    def candidates(self, excluded: Collection[Replica]) -> Sequence[Replica]:
        """The replicas that `pick` would choose among."""
        healthy = self.replicas.healthy
        return [replica for replica in healthy if replica not in excluded] if excluded else healthy
