"""What /metrics say: an engine's about where cached tokens came from, the router's about its replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hypertier.errors import HttpError, LabError
from hypertier.http_client import ask_url

TIMEOUT_SECONDS = 30.0
MAX_BYTES = 32 * 2**20

CACHED_BY_SOURCE = "vllm:prompt_tokens_cached_by_source_total"
TTFT = "vllm:time_to_first_token_seconds"
L2_WRITE_BYTES = "hypertier_l2_write_bytes_total"
REPLICA_HEALTHY = "hypertier_router_replica_healthy"
TIER_NAMES = {"device": "GPU", "host": "L1", "disk": "L2"}  # vLLM's sources, and what we call them

_SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class EngineCounts:
    """An engine's counters at one moment, summed over everything but the source."""

    cached_tokens: Mapping[str, float]
    ttft_seconds: float
    num_answers: float
    l2_write_bytes: float

    def since(self, before: EngineCounts) -> EngineCounts:
        """What was counted after `before`."""
        return EngineCounts(
            {
                source: count - before.cached_tokens.get(source, 0)
                for source, count in self.cached_tokens.items()
            },
            self.ttft_seconds - before.ttft_seconds,
            self.num_answers - before.num_answers,
            self.l2_write_bytes - before.l2_write_bytes,
        )

    @property
    def hit_source(self) -> str:
        """`none`, or the tiers that tokens came from: `GPU`, `L1`, `L2`, or several with a plus."""
        names = [TIER_NAMES.get(s, s) for s, count in self.cached_tokens.items() if count > 0]
        return "+".join(sorted(names)) or "none"

    @property
    def num_cached_tokens(self) -> int:
        """Tokens that were not computed."""
        return int(sum(self.cached_tokens.values()))


def parse_counts(text: str) -> EngineCounts:
    """Read what is needed out of an answer in Prometheus's text format."""
    cached: dict[str, float] = {}
    sums = {f"{TTFT}_sum": 0.0, f"{TTFT}_count": 0.0, L2_WRITE_BYTES: 0.0}
    for name, labels, value in samples(text):
        if name == CACHED_BY_SOURCE:
            source = labels.get("source", "")
            cached[source] = cached.get(source, 0.0) + value
        elif name in sums:
            sums[name] += value
    return EngineCounts(cached, sums[f"{TTFT}_sum"], sums[f"{TTFT}_count"], sums[L2_WRITE_BYTES])


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, labels and value of every sample."""
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match:
            yield match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])


def read_counts(url: str) -> EngineCounts:
    """Scrape an engine at `http://HOST:PORT`.

    Raises:
        LabError: it did not answer.
    """
    return parse_counts(scrape(url))


def healthy_replicas(url: str) -> frozenset[str]:
    """Ask the router, whose metrics are at `http://HOST:PORT`, which replicas it would send requests to.

    Raises:
        LabError: it did not answer.
    """
    return parse_healthy(scrape(url))


def parse_healthy(text: str) -> frozenset[str]:
    """The URLs of the replicas that are healthy, out of the router's metrics."""
    return frozenset(
        labels["replica"] for name, labels, value in samples(text) if name == REPLICA_HEALTHY and value
    )


def scrape(url: str) -> str:
    """Read the metrics at `http://HOST:PORT`.

    Raises:
        LabError: no answer, or another than 200.
    """
    try:
        status, body = ask_url(f"{url}/metrics", timeout_seconds=TIMEOUT_SECONDS, max_bytes=MAX_BYTES)
    except HttpError as error:
        raise LabError(f"{url}/metrics {error}") from error
    if status != 200:
        raise LabError(f"{url}/metrics answered {status}")
    return body.decode("utf-8", "replace")
