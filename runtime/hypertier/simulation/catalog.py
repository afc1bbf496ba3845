"""Every policy that can be simulated, by name."""

from __future__ import annotations

from collections.abc import Callable

from hypertier.errors import ConfigError
from hypertier.router.settings import STRATEGIES
from hypertier.simulation import routed
from hypertier.simulation.peers import PEERS
from hypertier.simulation.policy import Policy, World
from hypertier.simulation.scored import Scored

ROUTED = STRATEGIES
SCORING = "scoring"


def policy(name: str) -> Callable[[World], Policy]:
    """The builder of a policy: a strategy of the router, its scoring core alone, or a peer's.

    Raises:
        ConfigError: there is no such; tells the names.
    """
    if name in ROUTED:
        return routed.strategy(name)
    if name == SCORING:
        return Scored
    if name in PEERS:
        return PEERS[name]
    raise ConfigError("--strategies", name, f"some of {', '.join((*ROUTED, SCORING, *PEERS))}")
