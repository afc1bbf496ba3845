"""The loop: find the replicas, read them all at once, publish what they say, wait; no failure ends it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Protocol

from hypertier.errors import PublishError, ScrapeError
from hypertier.exporter.discovery import Discover
from hypertier.exporter.metrics import DECODE, HELD_REQUESTS, PREFILL
from hypertier.exporter.routers import RouterScrape, parse_router, router_data
from hypertier.exporter.scrape import Scrape, fetch_metrics, parse_metrics
from hypertier.exporter.series import DataPoint, endpoint_data, missing_names
from hypertier.exporter.warmth import Warmth
from hypertier.router.http.tls import EngineTls

MAX_PARALLEL_SCRAPES = 32
NUM_LATE_INTERVALS = 3
HELD_SECONDS = 5.0
"""How often routers are asked, between two cycles, whether a request waits for a replica."""

logger = logging.getLogger(__name__)


class Publisher(Protocol):
    """Where data points go; `cloudwatch.CloudWatch` is one."""

    def publish(self, data: Sequence[DataPoint], at: datetime) -> None:
        """Write all of `data`, or raise PublishError."""


@dataclass
class Health:
    """What `/health` shows. Times are ISO 8601, in UTC; empty for never."""

    healthy: bool = True
    cycles: int = 0
    replicas: int = 0
    discovery_failures: int = 0
    scrape_failures: int = 0
    publish_failures: int = 0
    metrics_missing: tuple[str, ...] = ()
    last_published: str = ""


class Exporter:
    """Publishes one endpoint's series every `interval_seconds`.

    Where `prefill` finds engines that prefill for others, those that `discover` finds decode, and each of the
    two roles has all series for itself; there are none over both.

    A replica that cannot be read, a name that cannot be resolved and a CloudWatch that takes nothing are
    counted, logged, and tried again at the next interval. Where `routers` finds routers, they tell whether
    requests wait for a replica, which is published at once, and whether anybody asks. Replicas are asked by
    `tls`, where given. With `per_replica` there is a series of each replica, too. `clock` tells the time of
    the data, `monotonic` the time passed.
    """

    def __init__(
        self,
        discover: Discover,
        publisher: Publisher,
        *,
        prefill: Discover | None = None,
        routers: Discover | None = None,
        interval_seconds: float = 60.0,
        timeout_seconds: float = 5.0,
        ignore: frozenset[str] = frozenset(),
        tls: EngineTls | None = None,
        per_replica: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._discover: dict[str | None, Discover] = (
            {None: discover} if prefill is None else {PREFILL: prefill, DECODE: discover}
        )
        self._routers = routers
        self._last_routers: dict[str, RouterScrape] = {}
        self._publisher = publisher
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._ignore = ignore
        self._tls = tls
        self._warmth = Warmth() if per_replica else None
        self._clock = clock
        self._monotonic = monotonic
        self._last: dict[str | None, dict[str, Scrape]] = {role: {} for role in self._discover}
        self._missing: frozenset[str] = frozenset()
        self._health = Health()
        self._last_cycle = monotonic()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; the cycles keep their distance however long one takes."""
        due = self._monotonic()
        while not stop.is_set():
            self.step()
            due = max(due + self._interval_seconds, self._monotonic())
            while self._may_hold and due - self._monotonic() > HELD_SECONDS:
                if stop.wait(HELD_SECONDS):
                    return
                self.look_for_held()
            stop.wait(due - self._monotonic())

    def step(self) -> None:
        """Do one cycle: discover, scrape, publish."""
        at = self._clock()
        for file in self._tls.files if self._tls is not None else ():
            file.refresh()
        found = {role: self._find(discover) for role, discover in self._discover.items()}
        scraped = self._scrape(sorted({url for urls in found.values() for url in urls or ()}))
        self._report_missing(missing_names(scraped.values(), self._ignore))
        data = [point for role, urls in found.items() for point in self._data(role, urls, scraped)]
        data += self._router_data(len(scraped))
        data += self._warmth.step(scraped, self._monotonic()) if self._warmth is not None else []
        self._publish(data, at)
        self._health.replicas = len(scraped)
        self._health.cycles += 1
        self._last_cycle = self._monotonic()

    def look_for_held(self) -> None:
        """Between two cycles: publish how many requests wait for a replica, if some do."""
        at, (routers, _) = self._clock(), self._ask_routers()
        held = sum(scrape.held or 0.0 for scrape in routers.values())
        if held:
            self._publish([DataPoint(HELD_REQUESTS, (held,))], at)

    @property
    def _may_hold(self) -> bool:
        """Whether a request may wait in a router: not where all that were read hold none."""
        known = self._last_routers.values()
        return self._routers is not None and (not known or any(scrape.held is not None for scrape in known))

    def health(self) -> dict[str, object]:
        """Return what `/health` shows; `healthy` is false when the loop has missed three intervals.

        A CloudWatch that takes nothing does not make the exporter unhealthy: a restart would not help.
        """
        late = self._monotonic() - self._last_cycle
        self._health.healthy = late <= NUM_LATE_INTERVALS * self._interval_seconds
        return asdict(self._health)

    def _data(
        self, role: str | None, urls: Sequence[str] | None, scraped: Mapping[str, Scrape]
    ) -> list[DataPoint]:
        """The data points of a role's replicas, which become what its next ones are compared with."""
        now = {url: scraped[url] for url in urls or () if url in scraped}
        # What could not be read or found keeps its last counters: its next scrape has something to compare.
        before = {url: scrape for url, scrape in self._last[role].items() if urls is None or url in urls}
        self._last[role] = before | now
        num_failed = len(urls or ()) - len(now)
        return endpoint_data(before, now, num_failed=num_failed, ignore=self._ignore, role=role)

    def _router_data(self, num_replicas: int) -> list[DataPoint]:
        if self._routers is None:
            return []
        routers, num_failed = self._ask_routers()
        before, self._last_routers = self._last_routers, self._last_routers | routers
        data = router_data(before, routers, num_failed=num_failed, num_replicas=num_replicas)
        if not num_failed:
            self._last_routers = routers
        return data

    def _ask_routers(self) -> tuple[dict[str, RouterScrape], int]:
        """What each said, and how many said nothing; one more where it is not known which there are."""
        urls = self._find(self._routers) if self._routers is not None else []
        told: dict[str, RouterScrape] = {}
        for url in urls or ():
            try:
                told[url] = parse_router(fetch_metrics(url, self._timeout_seconds))
            except ScrapeError as error:
                self._health.scrape_failures += 1
                logger.warning("%s %s", url, error)
        return told, (1 if urls is None else len(urls) - len(told))

    def _publish(self, data: Sequence[DataPoint], at: datetime) -> None:
        try:
            self._publisher.publish(data, at)
        except PublishError as error:
            self._health.publish_failures += 1
            logger.warning("%s", error)
        else:
            self._health.last_published = at.isoformat()

    def _find(self, discover: Discover) -> list[str] | None:
        """The replicas' URLs, or None where they cannot be known."""
        try:
            return discover()
        except ScrapeError as error:
            self._health.discovery_failures += 1
            logger.warning("%s", error)
            return None

    def _scrape(self, urls: Sequence[str]) -> dict[str, Scrape]:
        if not urls:
            return {}
        with ThreadPoolExecutor(min(len(urls), MAX_PARALLEL_SCRAPES), "scrape") as pool:
            found = pool.map(self._scrape_one, urls)
            return {url: scrape for url, scrape in zip(urls, found, strict=True) if scrape is not None}

    def _scrape_one(self, url: str) -> Scrape | None:
        try:
            return parse_metrics(fetch_metrics(url, self._timeout_seconds, self._tls))
        except ScrapeError as error:
            self._health.scrape_failures += 1
            logger.warning("%s %s", url, error)
            return None

    def _report_missing(self, missing: frozenset[str]) -> None:
        """Say loudly, once, which names are missing, and once when they are back."""
        for name in sorted(missing - self._missing):
            logger.error(
                "replicas have no metric %s: a series stays empty; is this another vLLM version?", name
            )
        for name in sorted(self._missing - missing):
            logger.info("replicas have the metric %s again", name)
        self._missing = missing
        self._health.metrics_missing = tuple(sorted(missing))
