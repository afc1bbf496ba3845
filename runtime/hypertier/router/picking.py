"""Choosing one replica for one request."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.models import Models
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State
from hypertier.router.strategies.strategy import Choice, Strategy

MIN_SHARE = 0.1
"""Of the choices, at the start of a slow start."""


class Picker:
    """Picks among healthy replicas by a strategy, and tells it what was sent where.

    A replica that is new, or back, takes part in more and more of the choices over `slow_start_seconds`: an
    idle one without a cache would be everybody's choice at once.
    """

    def __init__(
        self,
        strategy: Strategy,
        replicas: ReplicaSet,
        *,
        slow_start_seconds: float = 0.0,
        models: Models | None = None,
    ) -> None:
        self.strategy = strategy
        self.replicas = replicas
        self._num_picks = 0
        self._slow_start_seconds = slow_start_seconds
        self._credits: dict[Replica, float] = {}
        self._models = models
        if slow_start_seconds:
            replicas.watch(self._changed)

    def pick(
        self, ticket: Hashable, request: InferenceRequest, now: float, excluded: Collection[Replica] = ()
    ) -> Choice | None:
        """Choose, and take it as sent; None when no healthy replica is left outside `excluded`."""
        candidates = self.candidates(request, excluded)
        if not candidates:
            return None
        if self._credits:
            candidates = self._warm(candidates, now)
        choice = self.strategy.choose(request, candidates, now)
        if len(candidates) == 1:
            choice = choice.because("only")
        self._num_picks += 1
        choice.replica.last_picked = self._num_picks
        self.strategy.sent(ticket, request, choice, now)
        return choice

    def candidates(self, request: InferenceRequest, excluded: Collection[Replica] = ()) -> Sequence[Replica]:
        """The replicas that `pick` would choose among: healthy, and serving the model."""
        healthy: Sequence[Replica] = self.replicas.healthy
        models, model = self._models, request.model
        if models is not None and model is not None and (models.tells_apart or model not in models.named):
            healthy = models.servers(model, healthy)
        return [replica for replica in healthy if replica not in excluded] if excluded else healthy

    def may_come(self, request: InferenceRequest) -> bool:
        """Whether a replica that comes may serve it, for all that is known."""
        return self._models is None or self._models.may_come(request.model)

    def _warm(self, candidates: Sequence[Replica], now: float) -> Sequence[Replica]:
        """Leave out who has to wait for its turn; nobody, where all have."""
        chosen = []
        for replica in candidates:
            credit = self._credits.get(replica)
            if credit is None:
                chosen.append(replica)
                continue
            share = (now - replica.admitted_at) / self._slow_start_seconds
            if share >= 1:
                del self._credits[replica]
                chosen.append(replica)
                continue
            credit += max(MIN_SHARE, share)
            if credit >= 1:
                chosen.append(replica)
                credit -= 1
            self._credits[replica] = credit
        return candidates if not chosen or len(chosen) == len(candidates) else chosen

    def _changed(self, replica: Replica, reason: str) -> None:
        """One that comes into a fleet at work starts slowly; those that come together do not."""
        if replica.state is not State.HEALTHY:
            self._credits.pop(replica, None)
            return
        longest = self.replicas.longest_healthy
        if longest is not None and longest.admitted_at <= replica.admitted_at - self._slow_start_seconds:
            self._credits[replica] = 0.0
