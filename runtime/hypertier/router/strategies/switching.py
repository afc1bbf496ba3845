"""Several strategies side by side: each request is chosen for by one, and all hear what became of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.replicas import Replica
from hypertier.router.strategies.strategy import Choice, Strategy


class Switching(Strategy):
    """Asks the strategy that the request names, else the default; once awake, a change finds them all warm.

    Woken between `sent` and `finished`, a strategy hears of an end whose start it does not know, as after a
    start of the router.
    """

    def __init__(self, default: str, strategies: Mapping[str, Strategy]) -> None:
        self._name = default
        self._default = strategies[default]
        self._strategies = strategies
        self._hearing: list[Strategy] = [self._default]

    def wake(self) -> None:
        """From now on all hear of all requests."""
        self._hearing = list(self._strategies.values())

    @property
    def name(self) -> str:
        """The default's."""
        return self._name

    @property
    def index_bytes(self) -> int:
        """Of all of them."""
        return sum(strategy.index_bytes for strategy in self._strategies.values())

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """The choice of the strategy that it names."""
        strategy = self._default
        if request.strategy is not None:
            strategy = self._strategies.get(request.strategy, strategy)
        return strategy.choose(request, candidates, now)

    def sent(self, ticket: Hashable, request: InferenceRequest, choice: Choice, now: float) -> None:
        """Whoever chose, the replica has it to do, and will have it cached."""
        for strategy in self._hearing:
            strategy.sent(ticket, request, choice, now)

    def first_token(self, ticket: Hashable, now: float) -> None:
        """Its answer began."""
        for strategy in self._hearing:
            strategy.first_token(ticket, now)

    def finished(self, ticket: Hashable, now: float) -> None:
        """It ended."""
        for strategy in self._hearing:
            strategy.finished(ticket, now)
