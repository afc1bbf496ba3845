"""Streams that another replica goes on with where their own broke off: what they share, what came of them.

Off unless `--migration-limit` says how often. See `migratable` for one of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from hypertier.router.http.wire import BodyBudget
from hypertier.router.replicas.replicas import Replica, State
from hypertier.router.settings import MIGRATION_BYTES
from hypertier.router.telemetry.families import counter

SEAM_SECONDS: Final = 5.0
"""To find where a text ends, whatever is asked for it: its client waits."""


class Migration:
    """What streams that may be migrated share.

    `causes` counts how they broke off (see `BrokeOff`), `ended` what came of it, `ineligible` those that
    never could be by what in their request forbids it. `context_of` a model are the tokens of its prompt and
    answer together. `idle_seconds` without a byte, once an engine has begun to write, are as a break; 0 never
    is; where the engine is out of the choice, `idle_where_out_seconds` are. `encoders` are replicas whose
    answers can't be read.
    """

    def __init__(
        self,
        limit: int,
        context_of: Callable[[bytes | None], int | None],
        *,
        idle_seconds: float = 0.0,
        idle_where_out_seconds: float = math.inf,
    ) -> None:
        self.limit = limit
        self.context_of = context_of
        self.idle_seconds = idle_seconds
        self.idle_where_out_seconds = idle_where_out_seconds
        self.encoders: set[Replica] = set()
        self.causes: Counter[str] = Counter()
        self.seam_seconds = SEAM_SECONDS
        self.budget = BodyBudget(MIGRATION_BYTES)
        self.ended: Counter[str] = Counter()
        self.ineligible: Counter[str] = Counter()

    def encodes(self, replica: Replica) -> None:
        """This one answers in a coding that nobody asked for."""
        self.encoders = {one for one in self.encoders if one.state is not State.LEAVING} | {replica}


class MigrationCounts(Collector):
    """What became of streams that broke off."""

    def __init__(self, migration: Migration) -> None:
        self._migration = migration

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Every series; called by the registry."""
        yield counter(
            "hypertier_router_migrations",
            "Streams that broke off, by whether another replica went on, or why none did.",
            ["end"],
            self._migration.ended,
        )
        yield counter(
            "hypertier_router_migration_causes",
            "Streams that broke off, by how: closed, error, or idle.",
            ["cause"],
            self._migration.causes,
        )
        yield counter(
            "hypertier_router_migrations_ineligible",
            "Streamed requests that could not be gone on with, by what in them forbids it.",
            ["reason"],
            self._migration.ineligible,
        )
