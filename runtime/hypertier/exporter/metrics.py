"""Every metric name of the exporter: what it reads from vLLM, and what it writes to CloudWatch.

vLLM's were checked with the sources of 0.32.0 and with a /metrics recorded of it (2026-12-01):
`vllm/v1/metrics/loggers.py` and `vllm/v1/kv_offload/cpu/common.py` at
https://github.com/vllm-project/vllm/tree/v0.32.0; a counter's sample has `_total` behind the name used there.
"""

from __future__ import annotations

from dataclasses import dataclass

L1_USAGE = "vllm:kv_offload_cpu_cache_usage_perc"
KV_CACHE_USAGE = "vllm:kv_cache_usage_perc"
EXTERNAL_QUERIES = "vllm:external_prefix_cache_queries_total"
EXTERNAL_HITS = "vllm:external_prefix_cache_hits_total"
REQUESTS_WAITING = "vllm:num_requests_waiting"

VLLM_METRICS = {
    L1_USAGE: "share of L1 that transfers hold pinned now, 0.0 to 1.0; no sample before the first request",
    KV_CACHE_USAGE: "share of the GPU's KV cache that is in use, 0.0 to 1.0",
    EXTERNAL_QUERIES: "tokens that were looked up in L1 and L2",
    EXTERNAL_HITS: "tokens that were found in L1 or L2",
    REQUESTS_WAITING: "requests that wait to be scheduled",
}
FOUND_BY_SOURCE = "vllm:prompt_tokens_cached_by_source_total"
GPU_HITS = "vllm:prefix_cache_hits_total"
CACHE_CONFIG = "vllm:cache_config_info"
OWN_SOURCES = frozenset({"device", "host"})
"""GPU and L1, which go with the pod; `disk` is L2, and `p2p` what an engine that prefills handed over."""
WARMTH_METRICS = {
    FOUND_BY_SOURCE: "tokens found, by where; vLLM has it from 0.32 on",
    GPU_HITS: "tokens found in the GPU's cache; of an older vLLM, this alone",
    CACHE_CONFIG: "how many tokens the GPU's cache holds, in its labels",
}
"""Read besides with `--per-replica`; an engine without them has no `WarmTokens`."""
NEEDS_L1 = frozenset({L1_USAGE})
"""What an engine without L1 does not have; `--no-l1` stops the exporter from missing it."""


@dataclass(frozen=True)
class Series:
    """One CloudWatch metric: its name and unit, what one data point says, and how finely it is stored."""

    name: str
    unit: str
    meaning: str
    resolution_seconds: int = 60


L1_USAGE_RATIO = Series(
    "L1UsageRatio", "None", "share of L1 pinned by transfers, one value per replica, 0.0 to 1.0"
)
KV_CACHE_USAGE_RATIO = Series(
    "KvCacheUsageRatio", "None", "share of the GPU's KV cache in use, one value per replica, 0.0 to 1.0"
)
EXTERNAL_HIT_RATIO = Series(
    "ExternalHitRatio", "None", "tokens found in L1 or L2 per token looked up there since the last data point"
)
QUEUED_REQUESTS = Series("QueuedRequests", "Count", "requests waiting, all replicas together")
REPLICAS_SCRAPED = Series("ReplicasScraped", "Count", "replicas whose /metrics was read")
REPLICAS_FAILED = Series("ReplicasFailed", "Count", "replicas found whose /metrics could not be read")
METRICS_MISSING = Series(
    "MetricsMissing",
    "Count",
    "metrics of vLLM, of the five read, that a replica does not have; summed over replicas",
)
SERIES_ABSENT = Series(
    "SeriesAbsent", "Count", "series of the first four that had no data point, since nothing told their value"
)

WATCHED_SERIES = (L1_USAGE_RATIO, KV_CACHE_USAGE_RATIO, EXTERNAL_HIT_RATIO, QUEUED_REQUESTS)
HELD_REQUESTS = Series(
    "HeldRequests", "Count", "requests that wait in routers for a replica; every 5 s while there are some", 1
)
IDLE_REPLICAS = Series(
    "IdleReplicas",
    "Count",
    "replicas that answer and whom no router sent anything since the last data point, all or none of them",
)
SERIES = (*WATCHED_SERIES, REPLICAS_SCRAPED, REPLICAS_FAILED, METRICS_MISSING, SERIES_ABSENT)
ROUTER_SERIES = (HELD_REQUESTS, IDLE_REPLICAS)
"""And of routers that hold requests; for all engines together."""
CAPTURES_LOST = Series(
    "CapturesLost", "Count", "requests that were to be captured and of which routers kept nothing"
)
CAPTURE_SERIES = (CAPTURES_LOST,)
"""And of routers that capture."""
POOL_QUEUED_REQUESTS = Series(
    "PoolQueuedRequests", "Count", "requests that wait in routers' queues, one value per pool of models"
)
QUEUE_SERIES = (POOL_QUEUED_REQUESTS,)
"""And of routers that have a queue."""
WARM_TOKENS = Series(
    "WarmTokens",
    "Count",
    "tokens to compute anew without this replica: found in its GPU and L1 in 15 minutes, or held by requests",
)
REPLICA_SERIES = (WARM_TOKENS,)
"""And of each replica, where something asks which is worth least."""
ALL_SERIES = (*SERIES, *ROUTER_SERIES, *CAPTURE_SERIES, *QUEUE_SERIES, *REPLICA_SERIES)
"""All that an exporter may write."""
VERIFY_SERIES = (
    Series("VerifyFailed", "Count", "checks of a verification that failed"),
    Series("VerifyUntold", "Count", "checks of which it could not be told whether they pass"),
    Series("VerifySeconds", "Seconds", "what a verification took"),
    Series("VerifyTtft", "Seconds", "time to the first token of a prompt that is new"),
    Series("VerifyCachedTtft", "Seconds", "time to the first token of the same prompt again"),
    Series("VerifyCachedRatio", "None", "share of that prompt that came from a cache, 0.0 to 1.0"),
)
"""Of `hypertier verify --publish`, docs/verify.md."""
NAMESPACE = "Hypertier"
DIMENSION = "Endpoint"
"""Every series carries this dimension: the endpoint's name."""
ROLE_DIMENSION = "Role"
"""And this one where some engines prefill and others decode: `PREFILL` or `DECODE`."""
REPLICA_DIMENSION = "Replica"
"""And `REPLICA_SERIES` this one: the replica's address, which is its pod's."""
PREFILL, DECODE = "prefill", "decode"
