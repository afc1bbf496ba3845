"""One file per strategy, named as in the endpoint's manifest."""

from __future__ import annotations

from typing import Protocol

from hypertier.router.openai import InferenceRequest
from hypertier.router.replicas import Replica, ReplicaSet
from hypertier.router.residency import Residency
from hypertier.router.strategies.prefixaware import PrefixAware
from hypertier.router.strategies.roundrobin import RoundRobin
from hypertier.router.strategies.session import Session


class Strategy(Protocol):
    """Scores one replica for one request; `pick` takes the highest and spreads ties."""

    name: str

    def score(self, request: InferenceRequest, replica: Replica) -> float:
        """Higher is better; comparable between the replicas of one request alone."""
        ...

    def reason(self, request: InferenceRequest, replica: Replica) -> str:
        """Why this replica, in one word, for metrics and `--explain`."""
        ...


def build(name: str, *, replicas: ReplicaSet, residency: Residency) -> Strategy:
    """The strategy of that name; `RouterSettings` has checked that there is one."""
    strategies: tuple[Strategy, ...] = (RoundRobin(), PrefixAware(residency), Session(replicas))
    return next(strategy for strategy in strategies if strategy.name == name)
