"""One file per strategy, named as in the endpoint's manifest."""

from __future__ import annotations

from collections.abc import Callable

from hypertier.router import compiled

__path__ = compiled.path(__path__, "strategies")

from hypertier.router.replicas.cache_sizes import CacheSizes
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.strategies.kvaware import KvAware
from hypertier.router.strategies.prefixaware import PrefixAware
from hypertier.router.strategies.roundrobin import RoundRobin
from hypertier.router.strategies.session import Session
from hypertier.router.strategies.strategy import Strategy


def build(
    name: str, *, replicas: ReplicaSet, index_bytes: int, sizes: CacheSizes, now: Callable[[], float]
) -> Strategy:
    """The strategy of that name; `RouterSettings` has checked that there is one."""
    if name == "roundrobin":
        return RoundRobin()
    if name == "session":
        return Session(replicas)
    made = KvAware if name == "kvaware" else PrefixAware
    return made(replicas, capacity_bytes=index_bytes, sizes=sizes, now=now)
