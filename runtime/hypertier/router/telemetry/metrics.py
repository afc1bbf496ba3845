"""Every metric of the router: its name, unit and labels; `cache_metrics` has those of what engines keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from hypertier.router import compiled
from hypertier.router.http.tls import Reloaded
from hypertier.router.prefill.prefill import Prefillers
from hypertier.router.replicas.model_reading import ModelReading
from hypertier.router.replicas.models import Models
from hypertier.router.replicas.outliers import Outliers, RetryBudget
from hypertier.router.replicas.replicas import ReplicaSet, State
from hypertier.router.routes.canary import Canaries
from hypertier.router.routes.route_file import RouteFile
from hypertier.router.routes.shadow import Shadows
from hypertier.router.strategies.strategy import Strategy
from hypertier.router.telemetry.counts import FIRST_BYTE_SECONDS, RequestCounts
from hypertier.router.telemetry.families import counter, gauge

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class PeerCounts(Collector):
    """What passes between this router and those beside it.

    `num_told` and `num_heard` are the routers that hear this one and that this one hears; `num_in_flight`
    the requests of others.
    """

    def __init__(self) -> None:
        self.num_told = 0
        self.num_heard = 0
        self.num_in_flight = 0
        self.num_out = 0
        self.num_in = 0
        self.dropped: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Every series; called by the registry."""
        yield gauge(
            "hypertier_router_peers",
            "Routers that hear this one, or are heard.",
            ["direction"],
            {"out": self.num_told, "in": self.num_heard},
        )
        yield GaugeMetricFamily(
            "hypertier_router_peer_in_flight",
            "Requests in flight that other routers sent.",
            value=self.num_in_flight,
        )
        yield counter(
            "hypertier_router_peer_events",
            "Events told to other routers, or heard.",
            ["direction"],
            {"out": self.num_out, "in": self.num_in},
        )
        yield counter(
            "hypertier_router_peer_events_dropped",
            "Events without effect, by cause.",
            ["cause"],
            self.dropped,
        )
        yield counter(
            "hypertier_router_peer_losses",
            "Connections with other routers that ended or never came about, by cause.",
            ["cause"],
            self.losses,
        )


class DiscoveryCounts:
    """What one list, of replicas or of routers, is told by.

    `now` is a clock in seconds; `report` hears of a failure that is not that of the last try.
    """

    def __init__(self, now: Callable[[], float], report: Callable[[str], None]) -> None:
        self._now = now
        self._report = report
        self._last_cause = ""
        self.answered_at = now()
        self.answers: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def answered(self, kind: str) -> None:
        """What lists them said something; `kind` is `list`, an event of a watch, `watched`, or `dns`."""
        self.answers[kind] += 1
        self.answered_at = self._now()
        self._last_cause = ""

    def failed(self, cause: str, problem: str) -> None:
        """It did not answer: the last list stays."""
        self.failures[cause] += 1
        if cause != self._last_cause:
            self._last_cause = cause
            self._report(problem)


class Discoveries(Collector):
    """The counts of every list that the router follows, by what is listed."""

    def __init__(self, now: Callable[[], float], report: Callable[[str], None]) -> None:
        self._now = now
        self._report = report
        self._counts: dict[str, DiscoveryCounts] = {}

    def of(self, whose: str) -> DiscoveryCounts:
        """The counts of one list: `replicas` or `peers`."""
        return self._counts.setdefault(whose, DiscoveryCounts(self._now, self._report))

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Every series; called by the registry."""
        told = self._counts.items()
        yield counter(
            "hypertier_router_discovery_answers",
            "What told which replicas or routers there are, by kind.",
            ["of", "kind"],
            {(whose, kind): number for whose, counts in told for kind, number in counts.answers.items()},
        )
        yield counter(
            "hypertier_router_discovery_failures",
            "Times that it did not answer, and the last list stayed, by cause.",
            ["of", "cause"],
            {(whose, cause): number for whose, counts in told for cause, number in counts.failures.items()},
        )
        yield gauge(
            "hypertier_router_discovery_silence_seconds",
            "Time since it last answered.",
            ["of"],
            {whose: self._now() - counts.answered_at for whose, counts in told},
        )


class ModelCounts(Collector):
    """What the router knows of the models that its replicas serve."""

    def __init__(self, models: Models, reading: ModelReading) -> None:
        self._models = models
        self._reading = reading

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Every series; called by the registry."""
        yield counter(
            "hypertier_router_model_readings",
            "Readings of replicas' /v1/models.",
            ["result"],
            self._reading.readings,
        )
        yield GaugeMetricFamily(
            "hypertier_router_models_known",
            "Replicas that said which models they serve.",
            value=self._models.num_known,
        )


class PrefillCounts(Collector):
    """What became of prompts that were to be prefilled elsewhere."""

    def __init__(self, prefillers: Prefillers) -> None:
        self._prefillers = prefillers

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Every series; called by the registry."""
        yield counter(
            "hypertier_router_prefill_legs",
            "First requests of split ones, by their end.",
            ["end"],
            self._prefillers.legs,
        )
        yield GaugeMetricFamily(
            "hypertier_router_prefill_replicas_healthy",
            "Replicas that may prefill now.",
            value=self._prefillers.replicas.num_healthy,
        )


class RouteCounts(Collector):
    """Readings of the routes' file, what became of copies, and models that get no more requests."""

    def __init__(self, file: RouteFile, shadows: Shadows, canaries: Canaries) -> None:
        self._file = file
        self._shadows = shadows
        self._canaries = canaries

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Every series; called by the registry."""
        for name, about, label, counts in (
            (
                "reloads",
                "Readings of the routes' file; of a failed one nothing is used.",
                "result",
                self._file.reads,
            ),
            ("shadows", "Copies of requests, by how they ended.", "end", self._shadows.ended),
        ):
            yield counter(f"hypertier_router_route_{name}", about, [label], counts)
        yield counter(
            "hypertier_router_canary_rollbacks",
            "Times that a model of a split did worse than the largest and got no more requests, by cause.",
            ["model", "canary", "cause"],
            self._canaries.rolled_back,
        )
        yield counter(
            "hypertier_router_split_fallbacks",
            "Requests whose model of a split no replica had, so that another one answered.",
            ["model", "canary"],
            self._canaries.fell_back,
        )


class ProtectionCounts(Collector):
    """What was not done, so that a fault of all does not take all out or is sent to all."""

    def __init__(self, outliers: Outliers, retry_budget: RetryBudget) -> None:
        self._outliers = outliers
        self._retry_budget = retry_budget

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Every series; called by the registry."""
        yield CounterMetricFamily(
            "hypertier_router_ejections_withheld",
            "Times a failing replica stayed in the choice, since too few were left.",
            value=self._outliers.num_withheld,
        )
        yield CounterMetricFamily(
            "hypertier_router_retries_refused",
            "Requests not sent again, since too many had been.",
            value=self._retry_budget.num_refused,
        )


class FailureCounts(Collector):
    """Faults of our own beside requests, after which the work began anew."""

    def __init__(self, failures: Counter[str]) -> None:
        self._failures = failures

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Every series; called by the registry."""
        yield counter(
            "hypertier_router_background_failures",
            "Faults of the router's own beside requests, by the work, which began anew.",
            ["work"],
            self._failures,
        )


class TlsCounts(Collector):
    """Certificates read anew."""

    def __init__(self, certificates: Sequence[Reloaded]) -> None:
        self._certificates = certificates

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Nothing where there is no TLS; called by the registry."""
        if not self._certificates:
            return
        yield counter(
            "hypertier_router_certificate_reloads",
            "Times that a certificate's files changed, by what came of it.",
            ["result"],
            {result: sum(one.reloads[result] for one in self._certificates) for result in ("good", "failed")},
        )


class Metrics(Collector):
    """The router's counts, in a registry of their own.

    `counts` are plain numbers, since a request adds to a handful of them; they become series when scraped.
    """

    def __init__(self, strategy: Strategy, replicas: ReplicaSet) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._strategy = strategy.name
        self._index_of = strategy
        self._replicas = replicas
        self.counts = RequestCounts()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        """Every series; called by the registry."""
        yield from self._counters()
        yield self._histogram()
        yield from self._gauges()

    def _counters(self) -> Iterator[CounterMetricFamily]:
        yield counter(
            "hypertier_router_requests",
            "Requests answered, by replica (empty: by the router itself), strategy and class of status.",
            ["replica", "strategy", "status"],
            {(r, self._strategy, status): number for (r, status), number in self.counts.requests.items()},
        )
        yield counter(
            "hypertier_router_retries",
            "Requests sent again before their first byte, by cause.",
            ["cause"],
            self.counts.retries,
        )
        yield counter(
            "hypertier_router_ejections",
            "Times a replica was taken out of the choice, by cause.",
            ["replica", "cause"],
            self.counts.ejections,
        )
        yield counter(
            "hypertier_router_picks",
            "Choices of a replica, by reason.",
            ["strategy", "reason"],
            {(self._strategy, reason): number for reason, number in self.counts.picks.items()},
        )
        yield CounterMetricFamily(
            "hypertier_router_prompt_bytes",
            "Bytes of prompt in picked requests.",
            value=self.counts.prompt_bytes,
        )
        yield CounterMetricFamily(
            "hypertier_router_matched_prompt_bytes",
            "Bytes of prompt believed cached on the replica picked.",
            value=self.counts.matched_bytes,
        )

    def _histogram(self) -> HistogramMetricFamily:
        first_byte = HistogramMetricFamily(
            "hypertier_router_first_byte_seconds",
            "From a request read to the first byte of its answer's body.",
            labels=["strategy"],
        )
        bounds = [*map(floatToGoString, FIRST_BYTE_SECONDS), "+Inf"]
        buckets = list(zip(bounds, accumulate(self.counts.first_bytes), strict=True))
        first_byte.add_metric([self._strategy], buckets, self.counts.first_byte_seconds)
        return first_byte

    def _gauges(self) -> Iterator[GaugeMetricFamily]:
        replicas = self._replicas.by_url.values()
        yield gauge(
            "hypertier_router_in_flight",
            "Requests sent to a replica and not finished.",
            ["replica"],
            {replica.url: replica.in_flight for replica in replicas},
        )
        yield gauge(
            "hypertier_router_pending_prompt_bytes",
            "Uncached bytes of prompt sent to a replica and without a first byte of answer.",
            ["replica"],
            {replica.url: replica.pending_bytes for replica in replicas},
        )
        yield gauge(
            "hypertier_router_replica_healthy",
            "1 for a replica that may be picked, else 0.",
            ["replica"],
            {replica.url: replica.state is State.HEALTHY for replica in replicas},
        )
        yield GaugeMetricFamily(
            "hypertier_router_compiled",
            "1 where the hot modules run compiled, 0 where as their sources.",
            value=float(compiled.IN_USE),
        )
        yield GaugeMetricFamily(
            "hypertier_router_index_bytes",
            "Memory of the prefix index, estimated.",
            value=self._index_of.index_bytes,
        )
