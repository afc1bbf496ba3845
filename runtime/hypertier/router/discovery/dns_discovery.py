"""Finding replicas and routers by name: every address that a headless Service resolves to is one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from hypertier.dns_answers import hosts_of_one_family
from hypertier.router.discovery.addresses import Address
from hypertier.router.replicas.replicas import Listed
from hypertier.router.telemetry.metrics import DiscoveryCounts

# A name that resolves to nothing once may be a hiccup of DNS; so often in a row, there are no replicas.
MAX_EMPTY_ANSWERS = 3

_NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

Resolve = Callable[[Address], Awaitable[list[Address] | None]]


async def resolve(target: Address) -> list[Address] | None:
    """All addresses of the name, sorted; empty when the name has none; None when DNS gave no answer."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            target.host, target.port, type=socket.SOCK_STREAM
        )
    except socket.gaierror as error:
        return [] if error.errno in _NO_SUCH_NAME else None
    except OSError:
        return None
    return [Address(host, target.port) for host in hosts_of_one_family(found)]


class DnsDiscovery:
    """Keeps replicas, or routers, in step with DNS; without an answer the last list stays."""

    def __init__(
        self,
        target: Address,
        listed: Listed,
        counts: DiscoveryCounts,
        *,
        interval_seconds: float,
        resolve: Resolve = resolve,
    ) -> None:
        self._target = target
        self._listed = listed
        self._counts = counts
        self._interval_seconds = interval_seconds
        self._resolve = resolve
        self._num_empty = 0

    async def step(self) -> None:
        """Ask once and apply the answer."""
        found = await self._resolve(self._target)
        if found is None:
            self._counts.failed("dns", f"DNS gave no answer for {self._target.host}")
        else:
            self._counts.answered("dns")
        if found:
            self._num_empty = 0
            self._listed.replace(found)
        elif found is not None:
            self._num_empty += 1
            if self._num_empty >= MAX_EMPTY_ANSWERS:
                self._listed.replace([])

    async def run(self) -> None:
        """Ask every interval, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            await self.step()
