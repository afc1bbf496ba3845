"""Asking engines whether they are well: `GET /health` every interval, and at once on suspicion."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from enum import Enum

from hypertier.router.discovery.addresses import Address
from hypertier.router.http.engine_http import connect
from hypertier.router.process.own_limits import limit_of
from hypertier.router.process.tasks import Tasks
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State

# A busy engine answers late without being dead; one that refuses or says 503 is taken at its word.
MAX_TIMEOUTS = 3
log = logging.getLogger("hypertier.router")


class Health(Enum):
    """What one check found."""

    GOOD = "good"
    BAD = "bad"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


async def check(address: Address, timeout_seconds: float) -> Health:
    """One `GET /health` on a connection of its own: 200 is good, any other status bad.

    Unknown where this machine has no connection left to ask on.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await connect(address)
            try:
                writer.write(
                    b"GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % str(address).encode()
                )
                status = await reader.readline()
            finally:
                writer.transport.abort()
    except TimeoutError:
        return Health.TIMEOUT
    except OSError as error:
        return Health.UNKNOWN if limit_of(error) is not None else Health.REFUSED
    except ValueError:  # a first line longer than any status line
        return Health.BAD
    if not status:
        return Health.REFUSED
    return Health.GOOD if status.split(b" ")[1:2] == [b"200"] else Health.BAD


WHY = {
    Health.BAD: "its GET /health is not answered with 200",
    Health.REFUSED: "it takes no connection, or closes it without an answer",
    Health.TIMEOUT: "it did not answer GET /health in time",
    Health.UNKNOWN: "this machine has no connection left to ask it on",
}


class HealthChecks:
    """One task a replica, for as long as it is listed; admits and ejects.

    Time-outs eject after MAX_TIMEOUTS in a row, all else at once; the first good check admits. What could not
    be asked changes nothing.
    """

    def __init__(
        self,
        replicas: ReplicaSet,
        *,
        interval_seconds: float,
        timeout_seconds: float,
        check: Callable[[Address, float], Awaitable[Health]] = check,
        failures: Counter[str] | None = None,
    ) -> None:
        self._replicas = replicas
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._check = check
        self._tasks: Tasks[Replica] = Tasks("health checks", failures)
        self._wake: dict[Replica, asyncio.Event] = {}
        self._checked: dict[Replica, asyncio.Event] = {}
        replicas.watch(self._follow)

    def suspect(self, replica: Replica) -> None:
        """Check it now rather than at its time."""
        wake = self._wake.get(replica)
        if wake is not None:
            wake.set()

    async def first_round(self) -> None:
        """Return when each replica listed now has been checked once."""
        await asyncio.gather(*(event.wait() for event in list(self._checked.values())))

    async def stop(self) -> None:
        """End all checks."""
        for checked in self._checked.values():
            checked.set()
        await self._tasks.stop()

    def _follow(self, replica: Replica, reason: str) -> None:
        if replica.state is State.NEW and replica not in self._tasks:
            self._wake[replica] = asyncio.Event()
            self._checked[replica] = asyncio.Event()
            self._tasks.start(replica, lambda: self._run(replica))
        elif replica.state is State.LEAVING:
            self._forget(replica)

    def _forget(self, replica: Replica) -> None:
        self._tasks.end(replica)
        self._wake.pop(replica, None)
        checked = self._checked.pop(replica, None)
        if checked is not None:
            checked.set()

    async def _run(self, replica: Replica) -> None:
        num_timeouts = 0
        told = Health.GOOD
        wake, checked = self._wake[replica], self._checked[replica]
        while True:
            try:
                health = await self._check(replica.address, self._timeout_seconds)
                if replica.state is State.NEW and health not in (told, Health.GOOD):
                    told = health
                    log.warning("replica %s gets no request yet: %s", replica.url, WHY[health])
                if health is not Health.UNKNOWN:
                    num_timeouts = num_timeouts + 1 if health is Health.TIMEOUT else 0
                if health is Health.GOOD:
                    self._replicas.admit(replica)
                elif health in (Health.BAD, Health.REFUSED) or (
                    health is Health.TIMEOUT and num_timeouts >= MAX_TIMEOUTS
                ):
                    reason = f"health_{health.value}"
                    self._replicas.eject(replica, reason, is_silent=health is Health.TIMEOUT)
            finally:
                checked.set()
            try:
                await asyncio.wait_for(wake.wait(), self._interval_seconds)
            except TimeoutError:
                continue
            wake.clear()
