"""What every request on its way shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypertier.router.holding import Holding
from hypertier.router.http.gathering import Gathering
from hypertier.router.picking import Picker
from hypertier.router.process.own_limits import OwnLimits
from hypertier.router.replicas.outliers import Outliers, RetryBudget
from hypertier.router.replicas.replicas import Replica, ReplicaSet
from hypertier.router.settings import RouterSettings
from hypertier.router.telemetry.counts import RequestCounts
from hypertier.router.telemetry.decisions import Decisions


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
