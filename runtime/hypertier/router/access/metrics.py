"""Every metric of who was let in: its name, unit and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from hypertier.router.access.counts import WAIT_SECONDS, AccessCounts
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
        bounds = [*map(floatToGoString, WAIT_SECONDS), "+Inf"]
        yield HistogramMetricFamily(
            "hypertier_router_queue_seconds",
            "From a request read to its turn, for those that waited for an engine.",
            buckets=list(zip(bounds, accumulate(counts.waits), strict=True)),
            sum_value=counts.wait_sum,
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
