"""What routers say of requests: how many wait for a replica, and whether anybody asks at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypertier.errors import MissingPackageError, ScrapeError
from hypertier.exporter.metrics import HELD_REQUESTS, IDLE_REPLICAS
from hypertier.exporter.series import DataPoint

try:
    from prometheus_client.parser import text_string_to_metric_families
except ModuleNotFoundError as error:
    raise MissingPackageError("hypertier exporter", "prometheus-client", "exporter") from error

HELD = "hypertier_router_held"
PICKS = "hypertier_router_picks_total"
IN_FLIGHT = "hypertier_router_in_flight"


@dataclass(frozen=True)
class RouterScrape:
    """One router's numbers: requests held now, sent since it started, and in flight now."""

    held: float
    sent: float
    in_flight: float


def parse_router(text: str) -> RouterScrape:
    """Return the numbers of a router's `/metrics`.

    Raises:
        ScrapeError: `text` is not Prometheus' text format, or that of a router that holds no requests.
    """
    sums = {HELD: 0.0, PICKS: 0.0, IN_FLIGHT: 0.0}
    seen = set()
    try:
        for family in text_string_to_metric_families(text):
            seen.add(family.name)
            for sample in family.samples:
                if sample.name in sums:
                    sums[sample.name] += float(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeError(f"is no Prometheus text: {error}") from error
    if HELD not in seen:
        raise ScrapeError(f"has no {HELD}: a router without --hold-seconds holds no request")
    return RouterScrape(sums[HELD], sums[PICKS], sums[IN_FLIGHT])


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
    if not now:
        return []
    held = sum(scrape.held for scrape in now.values())
    data = [DataPoint(HELD_REQUESTS, (held,))]
    busy = held > 0 or any(
        scrape.in_flight > 0 or _sent(before.get(url), scrape) > 0 for url, scrape in now.items()
    )
    if busy or not num_failed:
        data.append(DataPoint(IDLE_REPLICAS, (0.0 if busy else float(num_replicas),)))
    return data


def _sent(before: RouterScrape | None, now: RouterScrape) -> float:
    """Requests that the router sent between the two."""
    return now.sent if before is None or now.sent < before.sent else now.sent - before.sent
