"""One replica's /metrics: fetched within a deadline, and parsed to the few numbers that count."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlsplit

from hypertier.errors import HttpError, MissingPackageError, ScrapeError
from hypertier.exporter.metrics import (
    CACHE_CONFIG,
    FOUND_BY_SOURCE,
    GPU_HITS,
    KV_CACHE_USAGE,
    OWN_SOURCES,
    VLLM_METRICS,
)
from hypertier.http_client import ask_url, exchange
from hypertier.router.http.tls import EngineTls
from hypertier.router.http.tls import connection as engine_connection
from hypertier.router.replicas.cache_sizes import cache_tokens

try:
    from prometheus_client.parser import text_string_to_metric_families
except ModuleNotFoundError as error:
    raise MissingPackageError("hypertier exporter", "prometheus-client", "exporter") from error

MAX_BYTES = 32 * 1024 * 1024
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True)
class Scrape:
    """What one replica said of itself.

    `values` maps a name of `VLLM_METRICS` to its samples, one per engine of the replica. A name that the
    replica has but gives no sample for yet maps to no values; one that it does not have is in `missing`.

    `found_tokens` were found so far in the GPU's cache and L1, `held_tokens` are held by requests that run;
    None where nothing tells.
    """

    values: Mapping[str, tuple[float, ...]]
    missing: frozenset[str]
    found_tokens: float | None = None
    held_tokens: float | None = None


def parse_metrics(text: str) -> Scrape:
    """Return the numbers of `VLLM_METRICS` in Prometheus' text format.

    A sample that is NaN or infinite counts as none, for CloudWatch takes no such value.

    Raises:
        ScrapeError: `text` is not Prometheus' text format.
    """
    declared: set[str] = set()
    values: dict[str, list[float]] = {}
    found: dict[str, float] = {}
    caches: list[dict[str, int]] = []
    try:
        for family in text_string_to_metric_families(text):
            # A counter's family has lost the `_total` that its samples carry.
            declared.update(
                (family.name, f"{family.name}_total") if family.type == "counter" else (family.name,)
            )
            for sample in family.samples:
                if sample.name in VLLM_METRICS and math.isfinite(sample.value):
                    values.setdefault(sample.name, []).append(float(sample.value))
                elif _is_own(sample.name, sample.labels) and math.isfinite(sample.value):
                    found[sample.name] = found.get(sample.name, 0.0) + float(sample.value)
                elif sample.name == CACHE_CONFIG:
                    caches.append(_numbers(sample.labels))
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeError(f"is no Prometheus text: {error}") from error
    present = {name: tuple(values.get(name, ())) for name in VLLM_METRICS if name in declared}
    usage, tokens = present.get(KV_CACHE_USAGE), cache_tokens(caches)
    return Scrape(
        MappingProxyType(present),
        frozenset(VLLM_METRICS) - declared,
        found.get(FOUND_BY_SOURCE, found.get(GPU_HITS)),
        sum(usage) / len(usage) * tokens if usage and tokens is not None else None,
    )


def _numbers(labels: Mapping[str, str]) -> dict[str, int]:
    """The labels that are whole numbers."""
    return {name: int(value) for name, value in labels.items() if _NUMBER.fullmatch(value)}


def _is_own(name: str, labels: Mapping[str, str]) -> bool:
    """Whether the sample counts tokens that were found in what goes with the pod."""
    return name == GPU_HITS or (name == FOUND_BY_SOURCE and labels.get("source") in OWN_SOURCES)


def fetch_metrics(url: str, timeout_seconds: float, tls: EngineTls | None = None) -> str:
    """Return the body of `url`'s /metrics; `url` is a replica's http or https address.

    Proxies of the environment are not asked: a replica is a neighbour. With `tls` it is asked by that.

    Raises:
        ScrapeError: no whole answer with status 200 within `timeout_seconds`.
    """
    try:
        target = f"{url.rstrip('/')}/metrics"
        if tls is None:
            status, body = ask_url(target, timeout_seconds=timeout_seconds, max_bytes=MAX_BYTES)
        else:
            parts = urlsplit(target)
            connection = engine_connection(parts.hostname or "", parts.port or 443, tls)
            reply = exchange(connection, parts.path, timeout_seconds=timeout_seconds, max_bytes=MAX_BYTES)
            status, body = reply.status, reply.body
    except HttpError as error:
        raise ScrapeError(str(error)) from error
    if status != 200:
        raise ScrapeError(f"answered /metrics with HTTP {status}")
    return body.decode("utf-8", "replace")
