"""From two scrapes per replica to the data points of an endpoint, or of one role in it: pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypertier.exporter.metrics import (
    EXTERNAL_HIT_RATIO,
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
    KV_CACHE_USAGE,
    KV_CACHE_USAGE_RATIO,
    L1_USAGE,
    L1_USAGE_RATIO,
    METRICS_MISSING,
    QUEUED_REQUESTS,
    REPLICAS_FAILED,
    REPLICAS_SCRAPED,
    REQUESTS_WAITING,
    SERIES_ABSENT,
    WATCHED_SERIES,
    Series,
)
from hypertier.exporter.scrape import Scrape

MAX_VALUES = 150
"""Values of one metric that one PutMetricData request may carry.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html (read 2026-12-01)
"""


@dataclass(frozen=True)
class DataPoint:
    """One data point of `series`: one value, or one per replica, which Average and Maximum then go over.

    `role` is what its engines do, where not all of them do the same; `replica` the address of the one that it
    is of.
    """

    series: Series
    values: tuple[float, ...]
    role: str | None = None
    replica: str | None = None


def endpoint_data(
    before: Mapping[str, Scrape],
    now: Mapping[str, Scrape],
    *,
    num_failed: int,
    ignore: frozenset[str],
    role: str | None = None,
) -> list[DataPoint]:
    """Return the data points of an endpoint whose replicas, by URL, said `before` and say `now`.

    With `role` they are those of the engines of one role.

    What cannot be known is left out and counted, never told as zero: a ratio without a lookup, a usage
    without a sample. `num_failed` replicas were found and not read. `ignore` are names whose absence is as it
    should be.
    """
    data: list[DataPoint] = []
    for series, name in ((L1_USAGE_RATIO, L1_USAGE), (KV_CACHE_USAGE_RATIO, KV_CACHE_USAGE)):
        values = [mean(scrape.values[name]) for scrape in now.values() if scrape.values.get(name)]
        for start in range(0, len(values), MAX_VALUES):
            data.append(DataPoint(series, tuple(values[start : start + MAX_VALUES]), role))
    waiting = [
        sum(scrape.values[REQUESTS_WAITING]) for scrape in now.values() if REQUESTS_WAITING in scrape.values
    ]
    if waiting:
        data.append(DataPoint(QUEUED_REQUESTS, (float(sum(waiting)),), role))
    ratio = hit_ratio(before, now)
    if ratio is not None:
        data.append(DataPoint(EXTERNAL_HIT_RATIO, (ratio,), role))
    num_absent = len(set(WATCHED_SERIES) - {point.series for point in data})
    num_missing = sum(len(scrape.missing - ignore) for scrape in now.values())
    for series, count in (
        (REPLICAS_SCRAPED, len(now)),
        (REPLICAS_FAILED, num_failed),
        (METRICS_MISSING, num_missing),
        (SERIES_ABSENT, num_absent),
    ):
        data.append(DataPoint(series, (float(count),), role))
    return data


def hit_ratio(before: Mapping[str, Scrape], now: Mapping[str, Scrape]) -> float | None:
    """Tokens found per token looked up between the scrapes, 0.0 to 1.0; None where nothing was looked up.

    A replica counts from its second scrape on. Where a counter fell, the engine restarted in between, and
    what it counted since is what it shows now.
    """
    hits = queries = 0.0
    for url, scrape in now.items():
        old, new = _lookups(before.get(url)), _lookups(scrape)
        if old is None or new is None:
            continue
        if new[0] < old[0] or new[1] < old[1]:
            old = (0.0, 0.0)
        hits += new[0] - old[0]
        queries += new[1] - old[1]
    # A scrape may fall between the engine's two increments.
    return min(hits / queries, 1.0) if queries > 0 else None


def mean(values: tuple[float, ...]) -> float:
    """The plain average of at least one value."""
    return sum(values) / len(values)


def missing_names(scrapes: Iterable[Scrape], ignore: frozenset[str]) -> frozenset[str]:
    """The names that at least one replica does not have and should."""
    return frozenset[str]().union(*(scrape.missing for scrape in scrapes)) - ignore


def _lookups(scrape: Scrape | None) -> tuple[float, float] | None:
    """Hits and queries, summed over the replica's engines, or None where either is not told."""
    if scrape is None:
        return None
    hits, queries = scrape.values.get(EXTERNAL_HITS), scrape.values.get(EXTERNAL_QUERIES)
    if not hits or not queries:
        return None
    return sum(hits), sum(queries)
