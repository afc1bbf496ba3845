"""What strategies have in common that look at load and session, and not at prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from operator import attrgetter

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.replicas import Replica
from hypertier.router.strategies.strategy import Choice, Strategy

last_picked = attrgetter("last_picked")


class ByLoad(Strategy):
    """Counts what is in flight: what was told as `sent` and not as `finished`, by whichever router."""

    def __init__(self) -> None:
        self._sent: dict[Hashable, Replica] = {}
        self._loads: Counter[Replica] = Counter()

    @property
    def index_bytes(self) -> int:
        """It remembers nothing of prompts."""
        return 0

    @property
    def in_flight(self) -> int:
        """Requests in flight on all replicas."""
        return len(self._sent)

    def load(self, replica: Replica) -> int:
        """Requests in flight there."""
        return self._loads.get(replica, 0)

    def least_loaded(self, candidates: Sequence[Replica]) -> Replica:
        """The least in flight; of equal ones, the one that was not picked for longest."""
        first = min(candidates, key=last_picked)
        if not self.load(first):
            return first
        return min(candidates, key=lambda replica: (self.load(replica), replica.last_picked))

    def sent(self, ticket: Hashable, request: InferenceRequest, choice: Choice, now: float) -> None:
        """It is in flight there."""
        self._sent[ticket] = choice.replica
        self._loads[choice.replica] += 1

    def first_token(self, ticket: Hashable, now: float) -> None:
        """Nothing to note."""

    def finished(self, ticket: Hashable, now: float) -> None:
        """It is no longer in flight."""
        replica = self._sent.pop(ticket, None)
        if replica is not None:
            self._loads[replica] -= 1
            if not self._loads[replica]:
                del self._loads[replica]  # it may be gone
