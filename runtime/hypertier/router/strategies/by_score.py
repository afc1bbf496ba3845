"""What strategies have in common that score one replica at a time and remember nothing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from hypertier.router.openai import InferenceRequest
from hypertier.router.replicas import Replica


class Choice(NamedTuple):
    """The replica, why in one word, and how many bytes of the prompt it is believed to have cached."""

    replica: Replica
    reason: str
    matched_bytes: int = 0


class ByScore:
    """Takes the highest score; a tie goes to the least loaded, then to the one not picked for longest."""

    index_bytes = 0

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
        replica = min(tied, key=lambda replica: (replica.in_flight, replica.last_picked))
        return Choice(replica, self.reason(request, replica))

    def sent(self, ticket: Hashable, request: InferenceRequest, choice: Choice, now: float) -> None:
        """Nothing to note."""

    def first_token(self, ticket: Hashable, now: float) -> None:
        """Nothing to note."""

    def finished(self, ticket: Hashable, now: float) -> None:
        """Nothing to note."""
