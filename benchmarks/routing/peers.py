"""The peers that `run.py` compares with: at their documented defaults, and tuned by `tune.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypertier.simulation.peers import (
    PEERS,
    CacheAware,
    KvRouter,
    LoadAware,
    MatchedPods,
    PrefixAffinity,
    WeightedScorers,
)
from hypertier.simulation.policy import Policy, World
from hypertier.simulation.routed import Routed

Build = Callable[[World], Policy]

GRIDS: dict[str, list[tuple[str, Build]]] = {
    "sglang-cache-aware": [
        (
            f"match_ratio={match}, apart={apart}, times={times}",
            partial(CacheAware, match_ratio=match, apart=apart, times=times),
        )
        for match in (0.1, 0.3, 0.5)
        for apart, times in ((64, 1.5), (32, 1.1), (8, 1.1), (4, 1.5), (2, 1.1))
    ],
    "llm-d": [
        (
            f"queue={queue}, kv={kv}, prefix={prefix}",
            partial(WeightedScorers, queue=queue, kv=kv, prefix=prefix),
        )
        for queue in (1.0, 2.0, 4.0)
        for kv in (0.0, 1.0, 2.0)
        for prefix in (1.0, 3.0, 6.0)
    ],
    "dynamo": [
        (f"overlap={overlap}", partial(KvRouter, overlap=overlap))
        for overlap in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    ],
    "production-stack-loadaware": [
        (f"beta={beta}", partial(LoadAware, beta=beta)) for beta in (0.1, 0.25, 0.5, 1.0, 2.0)
    ],
    "aibrix": [(f"apart={apart}", partial(MatchedPods, apart=apart)) for apart in (4, 8, 16, 32, 64)],
    "ray": [
        (f"apart={apart:g}", partial(PrefixAffinity, apart=apart))
        for apart in (2, 4, 8, 16, 32, float("inf"))
    ],
}
"""What of each peer can be set, and what of it was tried; the others have nothing to set."""

TUNED: dict[str, Build] = {
    "dynamo (tuned)": partial(KvRouter, overlap=64.0),
    "llm-d (tuned)": partial(WeightedScorers, queue=1.0, kv=0.0, prefix=3.0),
    "production-stack-loadaware (tuned)": partial(LoadAware, beta=0.25),
    "ray (tuned)": partial(PrefixAffinity, apart=32),
}
"""The best of each grid, as `tune.py` found it on 2026-12-01; for the others that was their default."""

ALL: dict[str, Build] = {**PEERS, **TUNED}


def hypertier(world: World, *, speaks: bool = True) -> Policy:
    """`hypertier router`: `kvaware` where engines tell what they hold, else `prefixaware`."""
    return Routed(world, "kvaware" if world.events else "prefixaware", speaks=speaks)


HYPERTIER = "hypertier"
OURS: dict[str, Build] = {
    HYPERTIER: hypertier,
    "hypertier, not shared": partial(hypertier, speaks=False),
}
"""The router's own code, and the same without news between routers."""
