"""Every policy that can be simulated, by name."""

from __future__ import annotations

from collections.abc import Callable

from hypertier.errors import ConfigError
from hypertier.simulation import routed
from hypertier.simulation.peers import PEERS
from hypertier.simulation.policy import Policy, World
from hypertier.simulation.scored import Scored

ROUTED = ("prefixaware", "roundrobin", "session")
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
    expected = f"some of {', '.join((*ROUTED, SCORING, *PEERS))}"
    if name == "kvaware":
        expected += (
            f"; kvaware asks engines for tokens, which there are none of here: {SCORING} with --events"
        )
    raise ConfigError("--strategies", name, expected)
