"""One page of metrics from those of all workers. Text in, families out; no clock and no network.

Each worker's page is asked for and added up here, rather than kept in files that processes share, as
prometheus_client's multiprocess mode does: the router keeps plain numbers and makes series of them when
scraped, so a request costs no write to shared memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

# What a gauge says of all workers together; whatever is in no list is the largest.
SUMS = frozenset(
    {
        "hypertier_router_in_flight",
        "hypertier_router_pending_prompt_bytes",
        "hypertier_router_index_bytes",
        "hypertier_router_held",
        "hypertier_router_tenant_in_flight",
        "hypertier_router_tenant_queued",
        "hypertier_router_pool_queued",
        "hypertier_router_pool_running",
        "hypertier_router_pool_slots",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
    }
)
LEAST = frozenset(
    {
        "hypertier_router_compiled",
        "hypertier_router_replica_healthy",
        "hypertier_router_prefill_replicas_healthy",
        "hypertier_router_models_known",
        "hypertier_router_kvaware_in_step",
        "hypertier_router_kvaware_verified",
        "hypertier_router_peers",
        "process_max_fds",
        "process_start_time_seconds",
    }
)
LARGEST = frozenset(
    {
        "hypertier_router_peer_in_flight",
        "hypertier_router_pool_model",
        "hypertier_router_replica_cache_tokens",
        "hypertier_router_prompt_bytes_per_token",
        "hypertier_router_discovery_silence_seconds",
        "hypertier_router_wake_seconds",
        "process_open_fds",
    }
)

OF_SERVING = frozenset({"hypertier_router_pool_slots"})
"""Sums that a worker which leaves has no part in: it lets nobody in, and its slots are its successor's."""

HEALTHY = "hypertier_router_replica_healthy"

Key = tuple[str, tuple[tuple[str, str], ...]]


def rule_of(family: Metric) -> Callable[[float, float], float]:
    """How the numbers of two workers become one: counts add up, for a gauge its name decides."""
    if family.type != "gauge" or family.name in SUMS:
        return operator.add
    return min if family.name in LEAST else max


class Stage(Enum):
    """Of a worker's life: one that leaves hears of nothing new, but still has requests in flight."""

    SERVING = "serving"
    LEAVING = "leaving"
    ENDED = "ended"


class Page(Collector):
    """Families by name, to which pages are added."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}
        self._values: dict[str, dict[Key, float]] = {}

    def add(self, text: str, *, of: Stage = Stage.SERVING) -> None:
        """Add one worker's page, as far as it says something of a worker at that stage."""
        for family in text_string_to_metric_families(text):
            if family.type == "gauge" and (
                of is Stage.ENDED or (of is Stage.LEAVING and family.name not in SUMS - OF_SERVING)
            ):
                continue
            self._families.setdefault(family.name, family)
            values, rule = self._values.setdefault(family.name, {}), rule_of(family)
            for sample in family.samples:
                key = (sample.name, tuple(sample.labels.items()))
                values[key] = rule(values[key], sample.value) if key in values else sample.value

    def forget_replicas_but(self, listed: Page) -> None:
        """Drop the series of replicas that this other page does not have, as each router does."""
        known = {label for _, labels in listed._values.get(HEALTHY, {}) for label in labels} | {
            ("replica", "")
        }
        for values in self._values.values():
            for key in [k for k in values if any(n == "replica" and (n, v) not in known for n, v in k[1])]:
                del values[key]

    def add_page(self, other: Page) -> None:
        """Add what another has."""
        for name, values in other._values.items():
            family = self._families.setdefault(name, other._families[name])
            own, rule = self._values.setdefault(name, {}), rule_of(family)
            for key, value in values.items():
                own[key] = rule(own[key], value) if key in own else value

    def collect(self) -> Iterable[Metric]:
        """Every series; called by the registry."""
        for name, first in self._families.items():
            merged = Metric(name, first.documentation, first.type)
            for (sample, labels), value in self._values[name].items():
                merged.add_sample(sample, dict(labels), value)
            yield merged


def decisions(told: Iterable[tuple[int, list[dict[str, Any]]]], limit: int) -> list[dict[str, Any]]:
    """The latest of all workers, latest first, each with the `worker` that made it."""
    every = [{**one, "worker": worker} for worker, some in told for one in some]
    return sorted(every, key=lambda one: -float(one["clock_seconds"]))[:limit]
