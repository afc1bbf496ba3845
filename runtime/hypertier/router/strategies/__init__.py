"""One file per strategy, named as in the endpoint's manifest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from hypertier.router import compiled

__path__ = compiled.path(__path__, "strategies")

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.cache_sizes import CacheSizes
from hypertier.router.replicas.replicas import Replica, ReplicaSet
from hypertier.router.strategies.by_score import Choice
from hypertier.router.strategies.kvaware import KvAware
from hypertier.router.strategies.prefixaware import PrefixAware
from hypertier.router.strategies.roundrobin import RoundRobin
from hypertier.router.strategies.session import Session


class Strategy(Protocol):
    """Chooses, and hears what became of the choice; a `ticket` is unique among the requests in flight."""

    @property
    def name(self) -> str:
        """As in the endpoint's manifest."""
        ...

    @property
    def index_bytes(self) -> int:
        """Memory that it takes to remember, by its own estimate."""
        ...

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """One of the candidates, of which there is at least one."""
        ...

    def sent(self, ticket: Hashable, request: InferenceRequest, choice: Choice, now: float) -> None:
        """The request goes there."""
        ...

    def first_token(self, ticket: Hashable, now: float) -> None:
        """The first event of a streamed answer came: the prompt is computed."""
        ...

    def finished(self, ticket: Hashable, now: float) -> None:
        """The request ended there, well or not."""
        ...


def build(
    name: str, *, replicas: ReplicaSet, index_bytes: int, sizes: CacheSizes, now: Callable[[], float]
) -> Strategy:
    """The strategy of that name; `RouterSettings` has checked that there is one."""
    if name == RoundRobin.name:
        return RoundRobin()
    if name == Session.name:
        return Session(replicas)
    made = KvAware if name == KvAware.name else PrefixAware
    return made(replicas, capacity_bytes=index_bytes, sizes=sizes, now=now)
