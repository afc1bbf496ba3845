"""Every metric of the router: its name, unit and labels. Nothing else in the router names one."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hypertier.router.replicas import ReplicaSet, State
from hypertier.router.residency import Residency

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The router's counters, in a registry of their own; gauges are read when scraped."""

    def __init__(self, strategy: str, replicas: ReplicaSet, residency: Residency) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._strategy = strategy
        self._requests = Counter(
            "hypertier_router_requests",
            "Requests answered, by replica (empty: by the router itself), strategy and class of status.",
            ["replica", "strategy", "status"],
            registry=self.registry,
        )
        self._retries = Counter(
            "hypertier_router_retries",
            "Requests sent again before their first byte, by cause.",
            ["cause"],
            registry=self.registry,
        )
        self._ejections = Counter(
            "hypertier_router_ejections",
            "Times a replica was taken out of the choice, by cause.",
            ["replica", "cause"],
            registry=self.registry,
        )
        self._picks = Counter(
            "hypertier_router_picks",
            "Choices of a replica, by reason.",
            ["strategy", "reason"],
            registry=self.registry,
        )
        self._prompt_bytes = Counter(
            "hypertier_router_prompt_bytes",
            "Bytes of prompt in picked requests.",
            registry=self.registry,
        )
        self._matched_bytes = Counter(
            "hypertier_router_matched_prompt_bytes",
            "Bytes of prompt believed cached on the replica picked.",
            registry=self.registry,
        )
        self._first_byte = Histogram(
            "hypertier_router_first_byte_seconds",
            "From a request read to the first byte of its answer.",
            ["strategy"],
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
            registry=self.registry,
        )
        self._observe_first_byte = self._first_byte.labels(strategy).observe
        self._request_children: dict[tuple[str, str], Counter] = {}
        self._ejection_causes: set[tuple[str, str]] = set()
        self._pick_children: dict[str, Counter] = {}
        self.registry.register(_Gauges(replicas, residency))

    def answered(self, replica: str, status: str) -> None:
        """One request ended; `status` is a class such as `2xx`, `client_closed`, or `broken` when begun."""
        child = self._request_children.get((replica, status))
        if child is None:
            child = self._requests.labels(replica, self._strategy, status)
            self._request_children[replica, status] = child
        child.inc()

    def retried(self, cause: str) -> None:
        """One request is sent again; `cause` is `connect`, `reset`, `stale` or a status."""
        self._retries.labels(cause).inc()

    def ejected(self, replica: str, cause: str) -> None:
        """One replica was ejected."""
        self._ejection_causes.add((replica, cause))
        self._ejections.labels(replica, cause).inc()

    def picked(self, reason: str, num_bytes: int, matched_bytes: int) -> None:
        """One replica was chosen."""
        child = self._pick_children.get(reason)
        if child is None:
            child = self._pick_children[reason] = self._picks.labels(self._strategy, reason)
        child.inc()
        if num_bytes:
            self._prompt_bytes.inc(num_bytes)
            self._matched_bytes.inc(matched_bytes)

    def first_byte(self, seconds: float) -> None:
        """One answer began, so long after its request was read."""
        self._observe_first_byte(seconds)

    def forget(self, replica: str) -> None:
        """A replica left: its series go too, or a fleet that turns over would grow them without bound."""
        for key in [key for key in self._request_children if key[0] == replica]:
            del self._request_children[key]
            self._requests.remove(replica, self._strategy, key[1])
        for ejection in [ejection for ejection in self._ejection_causes if ejection[0] == replica]:
            self._ejection_causes.discard(ejection)
            self._ejections.remove(*ejection)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, replicas: ReplicaSet, residency: Residency) -> None:
        self._replicas = replicas
        self._residency = residency

    def collect(self) -> Iterator[GaugeMetricFamily]:
        in_flight = GaugeMetricFamily(
            "hypertier_router_in_flight", "Requests sent to a replica and not finished.", labels=["replica"]
        )
        pending = GaugeMetricFamily(
            "hypertier_router_pending_prompt_bytes",
            "Uncached bytes of prompt sent to a replica and without a first byte of answer.",
            labels=["replica"],
        )
        healthy = GaugeMetricFamily(
            "hypertier_router_replica_healthy",
            "1 for a replica that may be picked, else 0.",
            labels=["replica"],
        )
        for replica in self._replicas.by_url.values():
            in_flight.add_metric([replica.url], replica.in_flight)
            pending.add_metric([replica.url], replica.pending_bytes)
            healthy.add_metric([replica.url], float(replica.state is State.HEALTHY))
        yield in_flight
        yield pending
        yield healthy
        yield GaugeMetricFamily(
            "hypertier_router_index_bytes",
            "Memory of the prefix index, estimated.",
            value=self._residency.size_bytes,
        )
