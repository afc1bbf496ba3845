"""Every replica in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.replicas import Replica
from hypertier.router.strategies.by_score import ByLoad, Choice, last_picked


class RoundRobin(ByLoad):
    """The replica whose last pick is longest ago."""

    name: ClassVar[str] = "roundrobin"

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """The next one; the reason is always `turn`."""
        return Choice(min(candidates, key=last_picked), "turn")
