"""Requests that find no replica wait here until one comes: of an endpoint that is scaled to zero, mostly.

Nothing is sent to who waits: after the first byte of an answer its status can't change, and another replica
can't be tried. Knative's activator and KEDA's HTTP add-on hold silently, too
(https://keda.sh/http-add-on/1.0/user-guide/configure-cold-start/, read 2026-12-02).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hypertier.router.api.openai import Refusal
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State
from hypertier.router.telemetry.families import counter

log = logging.getLogger("hypertier.router")

# How much a new wake counts for, against those before.
NEWEST_SHARE = 0.5


class Holdable(Protocol):
    """A request that nothing was answered to yet."""

    def has_replica(self) -> bool:
        """One that may be picked serves it."""
        ...

    def wake(self) -> None:
        """Pick a replica and send it, which counts as `sent` once it ended and was not held again."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """Answer this, and be done."""
        ...


class Place:
    """Where one request waits, `since` then; it `is_found` once it is about to go to a replica."""

    __slots__ = ("_holding", "is_found", "request", "since", "timer")

    def __init__(self, holding: Holding, request: Holdable, seconds: float, since: float) -> None:
        self._holding = holding
        self.request = request
        self.since = since
        self.is_found = False
        self.timer = asyncio.get_running_loop().call_later(seconds, holding.gave_up, self)

    def cancel(self) -> None:
        """It waits no more: its client went away, or gives it no more time."""
        self._holding.left(self)


class Holding:
    """Holds at most `size` requests, none for longer than `seconds`; they go on in the order they came.

    `now` is a clock in seconds. It learns how long it takes from the first that is held to a replica; until
    it has seen that once, as long as it holds a request.
    """

    def __init__(self, replicas: ReplicaSet, *, seconds: float, size: int, now: Callable[[], float]) -> None:
        self.ended: Counter[str] = Counter()
        self.wake_seconds: float | None = None
        self._replicas = replicas
        self._seconds = seconds
        self._size = size
        self._now = now
        self._places: dict[Place, None] = {}
        self._needed_since: float | None = None
        self._left_at = 0.0
        replicas.watch(self._changed)

    def __len__(self) -> int:
        return len(self._places)

    def hold(self, request: Holdable, begun_at: float) -> Place | Refusal:
        """Where it waits now, or the answer to one that came too late or finds no place."""
        now = self._now()
        left = begun_at + self._seconds - now
        is_new = not self._places and now - self._left_at > self._seconds
        if self._needed_since is None or is_new:
            self._needed_since = now
        if left <= 0:
            return self._refusal("timeout", f"no replica came within {self._seconds:g} s")
        if len(self._places) >= self._size:
            return self._refusal("full", "no healthy replica, and as many requests wait for one as may")
        place = Place(self, request, left, now)
        self._places[place] = None
        return place

    def left(self, place: Place) -> None:
        """Its client did not wait."""
        if self._take(place):
            self.ended["client_closed"] += 1

    def gave_up(self, place: Place) -> None:
        """It waited as long as it may."""
        self._take(place)
        place.request.refuse(self._refusal("timeout", f"no replica came within {self._seconds:g} s"))

    @property
    def retry_after_seconds(self) -> int:
        """When a replica is to be expected, by what it took before."""
        since = self._now() - (self._needed_since if self._needed_since is not None else self._now())
        wake = self._seconds if self.wake_seconds is None else self.wake_seconds
        return max(1, math.ceil(wake - since))

    def _refusal(self, end: str, message: str) -> Refusal:
        self.ended[end] += 1
        return Refusal(503, message, "no_replica", retry_after_seconds=self.retry_after_seconds)

    def _take(self, place: Place) -> bool:
        if place not in self._places:
            return False
        del self._places[place]
        place.timer.cancel()
        self._left_at = self._now()
        return True

    def look(self) -> None:
        """Those that a replica serves go on; one that serves none of those was not waited for.

        It took from the first of them; the first of the others waits on since it came.
        """
        if self._needed_since is None:
            return
        waiting = [place for place in self._places if not place.is_found]
        found = [place for place in waiting if place.request.has_replica()]
        if waiting:
            if not found:
                return
            since = self._needed_since if len(found) == len(waiting) else found[0].since
            took = self._now() - since
            known = took if self.wake_seconds is None else self.wake_seconds
            self.wake_seconds = known + NEWEST_SHARE * (took - known)
        for place in found:
            place.is_found = True
        self._needed_since = next((place.since for place in waiting if not place.is_found), None)
        # Later: others have yet to hear of this replica.
        asyncio.get_running_loop().call_soon(self._release)

    def _changed(self, replica: Replica, reason: str) -> None:
        if replica.state is State.HEALTHY:
            self.look()

    def _release(self) -> None:
        for place in list(self._places):
            if not place.request.has_replica():  # it went as it came
                place.is_found = False
                if self._needed_since is None:
                    self._needed_since = place.since
                continue
            if not self._take(place):
                continue
            try:
                place.request.wake()
            except Exception:  # a fault of ours costs this request alone
                log.exception("a request that was held could not be sent")
                place.request.refuse(Refusal(500, "a fault of the router's own", "internal_error"))


class HoldCounts(Collector):
    """What waits for a replica, and what became of what did."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Every series; called by the registry."""
        holding = self._holding
        yield GaugeMetricFamily(
            "hypertier_router_held", "Requests that wait for a replica.", value=len(holding)
        )
        yield counter(
            "hypertier_router_holds",
            "Requests that waited for one, by how that ended.",
            ["end"],
            holding.ended,
        )
        yield GaugeMetricFamily(
            "hypertier_router_wake_seconds",
            "From the first request held to a replica, learned; 0 before it was seen.",
            value=holding.wake_seconds or 0.0,
        )
