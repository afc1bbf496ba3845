"""What every request on its way shares, and where its answer goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from hypertier.router.api.openai import Refusal
from hypertier.router.holding import Holding
from hypertier.router.http.gathering import Gathering
from hypertier.router.picking import Picker
from hypertier.router.process.own_limits import OwnLimits
from hypertier.router.replicas.outliers import Outliers, RetryBudget
from hypertier.router.replicas.replicas import Replica, ReplicaSet
from hypertier.router.settings import RouterSettings
from hypertier.router.telemetry.counts import RequestCounts
from hypertier.router.telemetry.decisions import Decisions


class Client(Protocol):
    """Where an answer goes."""

    def write(self, data: bytes) -> None:
        """Send on; the exchange was asked to `pause` before this buffers without bound."""
        ...

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is complete."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """No byte was answered: answer with this."""
        ...

    def truncate(self) -> None:
        """The answer broke off: close so that the client can tell."""
        ...

    @property
    def closes(self) -> bool:
        """The connection ends with this answer, which says so."""
        ...


@dataclass(slots=True)
class Proxy:
    """What every exchange shares. `now` is a clock in seconds; `suspect` asks for a health check now."""

    settings: RouterSettings
    picker: Picker
    replicas: ReplicaSet
    counts: RequestCounts
    now: Callable[[], float]
    suspect: Callable[[Replica], None]
    outliers: Outliers
    retry_budget: RetryBudget
    decisions: Decisions = field(default_factory=Decisions)
    gathering: Gathering | None = None
    limits: OwnLimits = field(default_factory=OwnLimits)
    holding: Holding | None = None
    _for_copies: Proxy | None = None

    def for_copies(self) -> Proxy:
        """The same for copies of requests: what fails is not sent again, and no canary is judged by it."""
        if self._for_copies is None:
            settings, decisions = replace(self.settings, retries=0), self.decisions.unheard()
            self._for_copies = replace(self, settings=settings, decisions=decisions, holding=None)
        return self._for_copies
