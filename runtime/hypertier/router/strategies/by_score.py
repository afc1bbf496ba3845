"""What strategies have in common that score one replica at a time and remember nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from hypertier.router.openai import InferenceRequest
from hypertier.router.replicas import Replica


class Choice(NamedTuple):
    """The replica, why in one word, and how many bytes of the prompt it is believed to have cached.

    `predicted_seconds` is the time to the first token, None where it can't be told yet.
    """

    replica: Replica
    reason: str
    matched_bytes: int = 0
    predicted_seconds: float | None = None


class ByScore:
    """Takes the highest score; a tie goes to the least loaded, then to the one not picked for longest.

    Load is what was told as `sent` and not as `finished`: own requests, and those of other routers that tell.
    """

    index_bytes = 0

    def __init__(self) -> None:
        self._sent: dict[Hashable, Replica] = {}
        self._loads: Counter[Replica] = Counter()

    @property
    def in_flight(self) -> int:
        """Requests in flight on all replicas."""
        return len(self._sent)

    def load(self, replica: Replica) -> int:
        """Requests in flight there."""
        return self._loads[replica]

    def score(self, request: InferenceRequest, replica: Replica) -> float:
        """Higher is better; comparable between the replicas of one request alone."""
        raise NotImplementedError

    def reason(self, request: InferenceRequest, replica: Replica) -> str:
        """Why this replica, in one word."""
        raise NotImplementedError

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """The highest score."""
        scores = [self.score(request, replica) for replica in candidates]
        top = max(scores)
        tied = [replica for score, replica in zip(scores, candidates, strict=True) if score == top]
        replica = min(tied, key=lambda replica: (self._loads[replica], replica.last_picked))
        return Choice(replica, self.reason(request, replica))

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
