"""A choice, and what every strategy can be asked and told.

`Strategy` is a class and no protocol for the reason that `http.sides` gives: a request goes through three of
them, one in another, four times.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from mypy_extensions import mypyc_attr

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.replicas import Replica


class Choice:
    """The replica, why in one word, and how many bytes of the prompt it is believed to have cached.

    `predicted_seconds` is the time to the first token, None where it can't be told yet.
    """

    __slots__ = ("matched_bytes", "predicted_seconds", "reason", "replica")

    def __init__(
        self, replica: Replica, reason: str, matched_bytes: int = 0, predicted_seconds: float | None = None
    ) -> None:
        self.replica = replica
        self.reason = reason
        self.matched_bytes = matched_bytes
        self.predicted_seconds = predicted_seconds

    def because(self, reason: str) -> Choice:
        """The same for another reason."""
        return Choice(self.replica, reason, self.matched_bytes, self.predicted_seconds)


@mypyc_attr(allow_interpreted_subclasses=True)
class Strategy:
    """Chooses, and hears what became of the choice; a `ticket` is unique among the requests in flight."""

    @property
    def name(self) -> str:
        """As in the endpoint's manifest."""
        raise NotImplementedError

    @property
    def index_bytes(self) -> int:
        """Memory that it takes to remember, by its own estimate."""
        raise NotImplementedError

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """One of the candidates, of which there is at least one."""
        raise NotImplementedError

    def sent(self, ticket: Hashable, request: InferenceRequest, choice: Choice, now: float) -> None:
        """The request goes there."""
        raise NotImplementedError

    def first_token(self, ticket: Hashable, now: float) -> None:
        """The first event of a streamed answer came: the prompt is computed."""
        raise NotImplementedError

    def finished(self, ticket: Hashable, now: float) -> None:
        """The request ended there, well or not."""
        raise NotImplementedError
