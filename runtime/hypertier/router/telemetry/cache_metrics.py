"""Every metric of what engines keep, as the router knows it: its name, unit and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hypertier.router.kv.kv_streams import KvStreams
from hypertier.router.kv.verifying import Verifier
from hypertier.router.replicas.cache_sizes import CacheSizes
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.replicas.sizing import Sizing
from hypertier.router.strategies.kvaware import KvAware
from hypertier.router.telemetry.families import counter, gauge


class KvCounts(Collector):
    """What `kvaware` knows and does not know."""

    def __init__(
        self, strategy: KvAware, streams: KvStreams, verifier: Verifier, replicas: ReplicaSet
    ) -> None:
        self._strategy = strategy
        self._streams = streams
        self._verifier = verifier
        self._replicas = replicas

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Every series; called by the registry."""
        yield GaugeMetricFamily(
            "hypertier_router_kvaware_in_step",
            "Replicas of which all KV events are heard.",
            value=len(self._streams.in_step),
        )
        yield gauge(
            "hypertier_router_kvaware_verified",
            "1 for a replica whose blocks are those that its /tokenize tells.",
            ["replica"],
            {replica.url: replica in self._verifier.verified for replica in self._replicas.by_url.values()},
        )
        yield CounterMetricFamily(
            "hypertier_router_kvaware_batches",
            "Batches of KV events that were applied.",
            value=self._streams.num_batches,
        )
        counted = (
            (
                "resyncs",
                "Times that an engine's events were lost and all was forgotten.",
                "cause",
                self._streams.resyncs,
            ),
            ("verifications", "Tries of an engine's KV events, by result.", "result", self._verifier.results),
            (
                "fallbacks",
                "Choices made by what was sent where, by cause.",
                "cause",
                self._strategy.fallbacks,
            ),
            (
                "dropped_blocks",
                "Blocks of events that can't be used.",
                "cause",
                self._strategy.index.dropped,
            ),
            (
                "tokenizations",
                "Prompts tokenized by an engine, or not.",
                "cause",
                self._strategy.tokenizations,
            ),
        )
        for name, about, label, counts in counted:
            yield counter(f"hypertier_router_kvaware_{name}", about, [label], counts)


class SizeCounts(Collector):
    """How much replicas keep of what they were sent, as far as they tell."""

    def __init__(self, sizes: CacheSizes, read: Sequence[tuple[Sizing, ReplicaSet]]) -> None:
        self._sizes = sizes
        self._read = read

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Every series; called by the registry."""
        every = [replica for _, replicas in self._read for replica in replicas.by_url.values()]
        kept = {replica.url: self._sizes.tokens_of(replica) for replica in every}
        yield gauge(
            "hypertier_router_replica_cache_tokens",
            "Tokens that a replica keeps.",
            ["replica"],
            {url: tokens for url, tokens in kept.items() if tokens is not None},
        )
        yield GaugeMetricFamily(
            "hypertier_router_prompt_bytes_per_token",
            "Bytes of prompt that a token stands for.",
            value=self._sizes.bytes_per_token,
        )
        yield counter(
            "hypertier_router_cache_readings",
            "Readings of engines' caches, by result.",
            ["result"],
            sum((sizing.readings for sizing, _ in self._read), Counter()),
        )
