"""What routers say of requests: how many wait and where, whether anybody asks, what was not captured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from hypertier.errors import MissingPackageError, ScrapeError
from hypertier.exporter.metrics import (
    CAPTURES_LOST,
    HELD_REQUESTS,
    IDLE_REPLICAS,
    POOL_QUEUED_REQUESTS,
)
from hypertier.exporter.series import MAX_VALUES, DataPoint

try:
    from prometheus_client.parser import text_string_to_metric_families
except ModuleNotFoundError as error:
    raise MissingPackageError("hypertier exporter", "prometheus-client", "exporter") from error

HELD = "hypertier_router_held"
PICKS = "hypertier_router_picks_total"
IN_FLIGHT = "hypertier_router_in_flight"
CAPTURES = "hypertier_router_captures_total"
QUEUED = "hypertier_router_pool_queued"
LOST = frozenset({"busy", "spool_full", "failed"})
"""Ends of requests that were drawn and answered, and of which nothing was kept."""

Counts = Mapping[tuple[str, ...], float]
"""Samples of one counter by the values of its labels, in the order of their names."""


@dataclass(frozen=True)
class RouterScrape:
    """One router's numbers: requests held now, sent since it started, and in flight now.

    `held` is None of a router that holds none, `captures` of one that captures none, and `queued`, which is
    by pool, of one without a queue.
    """

    held: float | None
    sent: float
    in_flight: float
    captures: Counts | None = field(default=None, compare=False)
    queued: Counts | None = field(default=None, compare=False)


def parse_router(text: str) -> RouterScrape:
    """Return the numbers of a router's `/metrics`.

    Raises:
        ScrapeError: `text` is not Prometheus' text format, or not that of a router.
    """
    samples: dict[str, dict[tuple[str, ...], float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            samples.setdefault(f"{family.name}_total" if family.type == "counter" else family.name, {})
            for sample in family.samples:
                labels = tuple(value for _, value in sorted(sample.labels.items()))
                samples.setdefault(sample.name, {})[labels] = float(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeError(f"is no Prometheus text: {error}") from error
    if PICKS not in samples:
        raise ScrapeError(f"has no {PICKS}: it is no router's page")
    return RouterScrape(
        sum(samples[HELD].values()) if HELD in samples else None,
        sum(samples[PICKS].values()),
        sum(samples.get(IN_FLIGHT, {}).values()),
        captures=samples.get(CAPTURES),
        queued=samples.get(QUEUED),
    )


def router_data(
    before: Mapping[str, RouterScrape],
    now: Mapping[str, RouterScrape],
    *,
    num_failed: int,
    num_replicas: int,
) -> list[DataPoint]:
    """Return the data points of an endpoint's routers, by URL, of which `num_failed` could not be read.

    Without a router nothing is known of requests. That replicas are idle is said where all routers say so,
    and what each sent is compared with before; one that is new, or began anew, sent all that it counts.
    """
    data: list[DataPoint] = []
    holding = [scrape.held for scrape in now.values() if scrape.held is not None]
    if holding:
        data.append(DataPoint(HELD_REQUESTS, (sum(holding),)))
        busy = sum(holding) > 0 or any(
            scrape.in_flight > 0 or _sent(before.get(url), scrape) > 0 for url, scrape in now.items()
        )
        if busy or not num_failed:
            data.append(DataPoint(IDLE_REPLICAS, (0.0 if busy else float(num_replicas),)))
    if any(scrape.captures is not None for scrape in now.values()):
        data.append(DataPoint(CAPTURES_LOST, (_lost(before, now),)))
    queued: Counter[tuple[str, ...]] = Counter()
    for scrape in now.values():
        queued.update(scrape.queued or {})
    lines = tuple(queued.values())
    for start in range(0, len(lines), MAX_VALUES):
        data.append(DataPoint(POOL_QUEUED_REQUESTS, lines[start : start + MAX_VALUES]))
    return data


def _lost(before: Mapping[str, RouterScrape], now: Mapping[str, RouterScrape]) -> float:
    """Captures that all routers lost since the last scrapes.

    Of a router that joined the others all count; where none was known before, none does, since nobody knows
    when it was lost.
    """
    lost = 0.0
    if not before:
        return lost
    for url, scrape in now.items():
        known = (before[url].captures if url in before else None) or {}
        for labels, number in (scrape.captures or {}).items():
            if LOST & set(labels):
                lost += _grown(known.get(labels, 0.0), number)
    return lost


def _sent(before: RouterScrape | None, now: RouterScrape) -> float:
    """Requests that the router sent between the two."""
    return _grown(before.sent if before is not None else 0.0, now.sent)


def _grown(before: float, now: float) -> float:
    """What a counter counted between the two; one that fell began anew."""
    return now - before if now >= before else now
