"""Every replica in turn."""

from __future__ import annotations

from collections.abc import Sequence

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.replicas import Replica
from hypertier.router.strategies.by_load import ByLoad, last_picked
from hypertier.router.strategies.strategy import Choice


class RoundRobin(ByLoad):
    """The replica whose last pick is longest ago."""

    @property
    def name(self) -> str:
        """As in the endpoint's manifest."""
        return "roundrobin"

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """The next one; the reason is always `turn`."""
        return Choice(min(candidates, key=last_picked), "turn")
