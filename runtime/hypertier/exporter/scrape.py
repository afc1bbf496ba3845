"""One replica's /metrics: fetched within a deadline, and parsed to the few numbers that count."""

from __future__ import annotations

import http.client
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlsplit

from hypertier.errors import MissingPackageError, ScrapeError
from hypertier.exporter.metrics import VLLM_METRICS

try:
    from prometheus_client.parser import text_string_to_metric_families
except ModuleNotFoundError as error:
    raise MissingPackageError("hypertier exporter", "prometheus-client", "exporter") from error

MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Scrape:
    """What one replica said of itself.

    `values` maps a name of `VLLM_METRICS` to its samples, one per engine of the replica. A name that the
    replica has but gives no sample for yet maps to no values; one that it does not have is in `missing`.
    """

    values: Mapping[str, tuple[float, ...]]
    missing: frozenset[str]


def parse_metrics(text: str) -> Scrape:
    """Return the numbers of `VLLM_METRICS` in Prometheus' text format.

    A sample that is NaN or infinite counts as none, for CloudWatch takes no such value.

    Raises:
        ScrapeError: `text` is not Prometheus' text format.
    """
    declared: set[str] = set()
    values: dict[str, list[float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            # A counter's family has lost the `_total` that its samples carry.
            declared.update(
                (family.name, f"{family.name}_total") if family.type == "counter" else (family.name,)
            )
            for sample in family.samples:
                if sample.name in VLLM_METRICS and math.isfinite(sample.value):
                    values.setdefault(sample.name, []).append(float(sample.value))
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeError(f"is no Prometheus text: {error}") from error
    present = {name: tuple(values.get(name, ())) for name in VLLM_METRICS if name in declared}
    return Scrape(MappingProxyType(present), frozenset(VLLM_METRICS) - declared)


def fetch_metrics(url: str, timeout_seconds: float) -> str:
    """Return the body of `url`'s /metrics; `url` is a replica's http or https address.

    Proxies of the environment are not asked: a replica is a neighbour.

    Raises:
        ScrapeError: no whole answer with status 200 within `timeout_seconds`.
    """
    end = time.monotonic() + timeout_seconds
    parts = urlsplit(url)
    if parts.hostname is None:
        raise ScrapeError("has no host")
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.hostname, parts.port, timeout=timeout_seconds)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/metrics", headers={"Connection": "close"})
        response = connection.getresponse()
        if response.status != 200:
            raise ScrapeError(f"answered /metrics with HTTP {response.status}")
        chunks: list[bytes] = []
        size = 0
        while chunk := response.read1(65536):
            chunks.append(chunk)
            size += len(chunk)
            if time.monotonic() > end:
                raise ScrapeError(f"did not send its /metrics within {timeout_seconds:g} seconds")
            if size > MAX_BYTES:
                raise ScrapeError(f"sent more than {MAX_BYTES} bytes")
    except (OSError, http.client.HTTPException) as error:
        raise ScrapeError(f"could not be read: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    return b"".join(chunks).decode("utf-8", "replace")
