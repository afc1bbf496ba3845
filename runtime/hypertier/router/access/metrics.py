"""Every metric of who was let in, and of who waits where: its name, unit and labels."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from hypertier.router.access.counts import WAIT_SECONDS, AccessCounts
from hypertier.router.access.pool import Pool
from hypertier.router.access.pools import MAX_NAMED, Pools, text_of
from hypertier.router.access.tenants import Tenants
from hypertier.router.telemetry.families import counter, gauge


class AccessMetrics(Collector):
    """Who was let in and who was not, by tenant; see `tenants.MAX_LABELS` for how many are named."""

    def __init__(self, counts: AccessCounts, tenants: Tenants) -> None:
        self._counts = counts
        self._tenants = tenants

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        """Every series; called by the registry."""
        counts = self._counts
        yield counter(
            "hypertier_router_access_refusals",
            "Requests of nobody that may ask, by cause.",
            ["cause"],
            counts.refusals,
        )
        admitted = {(tenant, "admitted"): number for tenant, number in counts.admitted.items()}
        yield counter(
            "hypertier_router_tenant_requests",
            "Requests of tenants, by what became of them at the door.",
            ["tenant", "outcome"],
            {**admitted, **counts.refused},
        )
        yield counter(
            "hypertier_router_tenant_tokens",
            "Tokens of admitted requests: estimated, corrected where the answer tells.",
            ["tenant"],
            counts.tokens,
        )
        yield counter(
            "hypertier_router_access_reloads",
            "Times that a file was read anew.",
            ["file", "outcome"],
            counts.reloads,
        )
        yield from self._gauges()

    def _gauges(self) -> Iterator[GaugeMetricFamily]:
        in_flight: Counter[str] = Counter()
        queued: Counter[str] = Counter()
        for tenant in self._tenants:
            in_flight[tenant.label] += tenant.limits.in_flight
            queued[tenant.label] += tenant.num_queued
        for name, about, numbers in (
            ("in_flight", "Requests of tenants that did not end yet.", in_flight),
            ("queued", "Requests of tenants that wait for an engine.", queued),
        ):
            yield gauge(f"hypertier_router_tenant_{name}", about, ["tenant"], numbers)


class PoolMetrics(Collector):
    """Of each pool its line, its slots and who waited; see `pools.MAX_NAMED` for how many are named."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        """Every series; called by the registry."""
        counts = self._pools.counts
        seconds = HistogramMetricFamily(
            "hypertier_router_queue_seconds",
            "From a request read to its turn, for those that waited for an engine, by pool.",
            labels=["pool"],
        )
        bounds = [*map(floatToGoString, WAIT_SECONDS), "+Inf"]
        for name, one in counts.items():
            seconds.add_metric([name], list(zip(bounds, accumulate(one.waits), strict=True)), one.wait_sum)
        yield seconds
        yield counter(
            "hypertier_router_pool_unserved",
            "Requests that left a pool's queue without a turn, by cause.",
            ["pool", "cause"],
            {(name, cause): number for name, one in counts.items() for cause, number in one.unserved.items()},
        )
        pools = list(self._pools)
        yield gauge(
            "hypertier_router_pool_queued",
            "Requests that wait in a pool's queue.",
            ["pool"],
            _added((pool, len(pool.queue)) for pool in pools),
        )
        yield gauge(
            "hypertier_router_pool_running",
            "Requests that have one of a pool's slots.",
            ["pool"],
            _added((pool, pool.running) for pool in pools),
        )
        yield gauge(
            "hypertier_router_pool_slots",
            "Requests that may be on a pool's engines; none without a healthy one.",
            ["pool"],
            _added((pool, pool.limit) for pool in pools if math.isfinite(pool.limit)),
        )
        models = sorted((pool.counts.name, text_of(model)) for pool in pools for model in pool.bases)
        yield gauge(
            "hypertier_router_pool_model",
            "1 for each model of a pool that is no adapter.",
            ["pool", "model"],
            dict.fromkeys(models[:MAX_NAMED], 1.0),
        )


def _added(numbers: Iterable[tuple[Pool, float]]) -> dict[str, float]:
    """By name: those without one of their own have one together."""
    added: defaultdict[str, float] = defaultdict(float)
    for pool, number in numbers:
        added[pool.counts.name] += number
    return added
