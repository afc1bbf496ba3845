"""The simulated engine's /metrics, under the names that vLLM gives them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from hypertier.lab.simulated.engine import DEVICE, DISK, HOST, Prefill, SimulatedEngine
from hypertier.tier.metrics import COUNTERS, PREFIX, Counters

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40)


class EngineMetrics(Collector):
    """Counts requests; what the engine and its tier count themselves is read when scraped."""

    def __init__(self, engine: SimulatedEngine, tier_counters: Counters) -> None:
        self._engine = engine
        self._tier_counters = tier_counters
        self._registry = CollectorRegistry()
        self._prompt_tokens = Counter("vllm:prompt_tokens", "Tokens of prompts.", registry=self._registry)
        self._cached_tokens = Counter(
            "vllm:prompt_tokens_cached_by_source",
            "Tokens of prompts that were not computed.",
            ["source"],
            registry=self._registry,
        )
        for source in (DEVICE, HOST, DISK):
            self._cached_tokens.labels(source)
        self._generated = Counter("vllm:generation_tokens", "Words said.", registry=self._registry)
        self._ttft = Histogram(
            "vllm:time_to_first_token_seconds", "Seconds.", buckets=TTFT_BUCKETS, registry=self._registry
        )
        self.running = Gauge("vllm:num_requests_running", "Requests in work.", registry=self._registry)
        self._usage = Gauge(
            "vllm:kv_cache_usage_perc", "Share of pages in use, 0 to 1.", registry=self._registry
        )
        self._registry.register(self)

    def count_first_word(self, num_tokens: int, prefill: Prefill, ttft_seconds: float) -> None:
        """A prompt of `num_tokens` has its first word."""
        self._prompt_tokens.inc(num_tokens)
        for source, count in prefill.cached_tokens.items():
            self._cached_tokens.labels(source).inc(count)
        self._ttft.observe(ttft_seconds)

    def count_words(self, num_words: int) -> None:
        """An answer ended."""
        self._generated.inc(num_words)

    def render(self) -> bytes:
        """Prometheus's text format."""
        self._usage.set(self._engine.usage_ratio)
        return generate_latest(self._registry)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The tier's counters."""
        for name, meaning in COUNTERS.items():
            yield CounterMetricFamily(PREFIX + name, meaning, value=self._tier_counters.total(name))
