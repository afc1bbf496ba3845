"""The engines behind the router: which there are, which may be picked, and what each has in hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from typing import Protocol

from hypertier.router.discovery.addresses import Address
from hypertier.router.http.tls import EngineTls


class State(Enum):
    """`NEW` until a first good health check; `LEAVING` when its list no longer names it: requests finish."""

    NEW = "new"
    HEALTHY = "healthy"
    EJECTED = "ejected"
    LEAVING = "leaving"


class IdleConnection(Protocol):
    """A kept-alive connection that waits in a replica's pool."""

    def close(self) -> None:
        """Close it; it is no longer in the pool."""
        ...


class WaitingRequest(Protocol):
    """A request sent to a replica whose answer has not begun; one that is `streamed` soon speaks."""

    @property
    def streamed(self) -> bool:
        """Its answer comes token by token."""
        ...

    def leave(self) -> None:
        """Try another replica, if there is one."""
        ...


class Listed(Protocol):
    """What follows a list of addresses."""

    def replace(self, addresses: Iterable[Address]) -> None:
        """These, and no others."""
        ...

    def change(self, came: Iterable[Address], gone: Iterable[Address]) -> None:
        """These as well, and those no longer."""
        ...


class Replica:
    """One engine pod.

    `in_flight` counts requests sent and not finished; `pending_bytes` is the part of their prompts that
    the engine is believed to have still to compute: uncached bytes of requests without a first byte of
    answer. `kv_events` says what the router makes of its KV events, where it goes by them. Until
    `barred_until` no good health check brings it back; from `admitted_at` on it gets more and
    more of its share.
    """

    def __init__(self, url: str, address: Address) -> None:
        self.url = url
        self.address = address
        self.name = str(address).encode()
        self.state = State.NEW
        self.in_flight = 0
        self.pending_bytes = 0
        self.last_picked = 0
        self.barred_until = 0.0
        self.admitted_at = 0.0
        self.kv_events = ""
        self.idle: list[IdleConnection] = []
        self.waiting: set[WaitingRequest] = set()

    def usable_pool(self, max_idle: int) -> bool:
        """A connection given back now may wait for another request."""
        return self.state is State.HEALTHY and len(self.idle) < max_idle

    def close_idle(self) -> None:
        """Close every pooled connection."""
        idle, self.idle = self.idle, []
        for connection in idle:
            connection.close()


class ReplicaSet:
    """All replicas by URL. Watchers hear of every change of state.

    `in_flight` counts the requests in flight on all of them; `now` is a clock in seconds.
    All are spoken to by `tls`, where given.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, *, tls: EngineTls | None = None) -> None:
        self._now = now
        self._tls = tls
        self._healthy: dict[Replica, None] = {}
        self._parting: dict[Replica, None] = {}
        self._listed: tuple[Replica, ...] | None = ()
        self.by_url: dict[str, Replica] = {}
        self.in_flight = 0
        self._watchers: list[Callable[[Replica, str], None]] = []
        self._at_end: list[Callable[[Replica], None]] = []

    @property
    def healthy(self) -> tuple[Replica, ...]:
        """What may be picked, in the order of admission: the same tuple until one comes or goes.

        Watchers ask for it at a choice, not at a change: where thousands change at once, it is made once.
        """
        listed = self._listed
        if listed is None:
            listed = self._listed = tuple(self._healthy)
        return listed

    @property
    def num_healthy(self) -> int:
        """How many may be picked."""
        return len(self._healthy)

    @property
    def longest_healthy(self) -> Replica | None:
        """The one that may be picked since the earliest time."""
        return next(iter(self._healthy), None)

    def watch(self, watcher: Callable[[Replica, str], None]) -> None:
        """Call `watcher(replica, reason)` after each change of a replica's state."""
        self._watchers.append(watcher)

    def at_end(self, watcher: Callable[[Replica], None]) -> None:
        """Call `watcher(replica)` when one that left has nothing in flight any more."""
        self._at_end.append(watcher)

    def start(self, replica: Replica, pending_bytes: int) -> None:
        """A request is sent to the replica."""
        self.in_flight += 1
        replica.in_flight += 1
        replica.pending_bytes += pending_bytes

    def finish(self, replica: Replica) -> None:
        """A request ended there, well or not."""
        self.in_flight -= 1
        replica.in_flight -= 1
        if replica.state is State.LEAVING:
            self.retire(replica)

    def replace(self, addresses: Iterable[Address]) -> None:
        """Make these the replicas: new ones wait for a health check, missing ones finish and leave."""
        wanted = {f"http://{address}": address for address in addresses}
        self.change(wanted.values(), [one.address for url, one in self.by_url.items() if url not in wanted])

    def change(self, came: Iterable[Address], gone: Iterable[Address]) -> None:
        """List these as well, and those no longer; what was listed or was not already stays as it is.

        Where all that may be picked are to leave and others have come, as when a Service selects other pods,
        they stay until the first of those is healthy: requests are no reason to be without a replica.
        """
        for address in came:
            url = f"http://{address}"
            present = self.by_url.get(url)
            if present is None:
                self.by_url[url] = Replica(url, replace(address, tls=self._tls))
                self._change(self.by_url[url], State.NEW, "listed")
            elif present.state is State.LEAVING:
                self._change(present, State.NEW, "listed")
            else:
                self._parting.pop(present, None)
        for address in gone:
            present = self.by_url.get(f"http://{address}")
            if present is None or present.state is State.LEAVING:
                continue
            if present.state is State.HEALTHY:
                self._parting[present] = None
            else:
                self._leave(present)
        if self._parting and not self._must_stay():
            self._part()

    def admit(self, replica: Replica) -> None:
        """A good health check: it may be picked, unless it is leaving, or barred for what it did."""
        if replica.state in (State.NEW, State.EJECTED) and self._now() >= replica.barred_until:
            replica.admitted_at = self._now()
            self._change(replica, State.HEALTHY, "healthy")
            self._part()

    def eject(self, replica: Replica, reason: str, *, is_silent: bool = False) -> None:
        """It must not be picked until a good health check.

        One that `is_silent` closes no connection, frozen or cut off as it is: what waits there leaves.
        """
        if replica.state is State.HEALTHY:
            self._change(replica, State.EJECTED, reason)
            if replica in self._parting:
                del self._parting[replica]
                self._leave(replica)
        replica.close_idle()
        if is_silent:
            for request in list(replica.waiting):
                request.leave()

    def retire(self, replica: Replica) -> None:
        """Forget a leaving replica once nothing is in flight on it."""
        if replica.state is State.LEAVING and replica.in_flight == 0:
            replica.close_idle()
            if self.by_url.get(replica.url) is replica:
                del self.by_url[replica.url]
                for watcher in self._at_end:
                    watcher(replica)

    def _must_stay(self) -> bool:
        """Those that are to leave are all that may be picked, and others may soon be."""
        return len(self._parting) == len(self._healthy) and any(
            replica.state is State.NEW for replica in self.by_url.values()
        )

    def _part(self) -> None:
        """Let those go that are to leave."""
        parting, self._parting = self._parting, {}
        for replica in parting:
            self._leave(replica)

    def _leave(self, replica: Replica) -> None:
        self._change(replica, State.LEAVING, "unlisted")
        self.retire(replica)

    def _change(self, replica: Replica, state: State, reason: str) -> None:
        before, replica.state = replica.state, state
        if state is State.HEALTHY:
            self._healthy[replica] = self._listed = None
        elif before is State.HEALTHY:
            del self._healthy[replica]
            self._listed = None
        for watcher in self._watchers:
            watcher(replica, reason)
