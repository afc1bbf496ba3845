"""What this machine has no more of to give, as open files, ports, memory: nobody else is at fault."""

from __future__ import annotations

import errno
import logging
import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from hypertier.router.telemetry.families import counter

log = logging.getLogger("hypertier.router")

QUIET_SECONDS: Final = 60.0
"""Without a further shortage, after which it is over."""
MAX_KEPT_FILES: Final = 512
LIMITS: Final = {
    errno.EMFILE: "files",
    errno.ENFILE: "system_files",
    errno.EADDRNOTAVAIL: "ports",
    errno.ENOBUFS: "memory",
    errno.ENOMEM: "memory",
}
ADVICE: Final = {
    "files": "this process may have no more open files than %(most)d: raise `ulimit -Hn`, or LimitNOFILE= of "
    "what starts containers, or run more routers",
    "system_files": "this machine may have no more open files: raise its fs.file-max",
    "ports": "this machine has no more ports to connect from: widen net.ipv4.ip_local_port_range, or run "
    "more routers",
    "memory": "the kernel has no more memory for connections: raise the container's limit",
}


def limit_of(error: BaseException) -> str | None:
    """Which limit of this machine made it fail; None where it is another's fault."""
    return LIMITS.get(error.errno or 0) if isinstance(error, OSError) else None


def first_kept(most: int) -> int:
    """The lowest number of an open file that no client gets, of `most` that may be open.

    An eighth, 512 at most, is kept for engines, for `/metrics` on a port of its own, and for telling clients
    why they are turned away. The kernel always gives the lowest number that is free, so the number of a
    file says how many there are.
    """
    return most - min(most // 8, MAX_KEPT_FILES)


@dataclass(slots=True)
class _Shortage:
    seen_at: float
    count: int = 0


class OwnLimits(Collector):
    """Counts what met a limit `at` a `client` that connects, a `replica` that is connected to, or a `look`
    around each second; says so once, and once more when it is over.

    `now` is a clock in seconds; `most` open files are allowed, without it as many as this process may have.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, most: int | None = None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._now = now
        self._shortages: dict[str, _Shortage] = {}
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if most is None else most
        self._most = allowed if allowed >= 0 else 2**31  # RLIM_INFINITY is below 0
        self._first_kept = first_kept(self._most)
        self._first_mute = (self._first_kept + self._most) // 2

    def takes(self, file_number: int) -> bool:
        """A client whose connection has this number is served, else turned away and counted."""
        if file_number < self._first_kept:
            return True
        self.met("client", "files")
        return False

    def tells(self, file_number: int) -> bool:
        """A client that is turned away is told why: that keeps its file open for a moment longer."""
        return file_number < self._first_mute

    def met(self, at: str, limit: str) -> None:
        """It was met once more."""
        self.counts[at, limit] += 1
        shortage = self._shortages.get(limit)
        if shortage is None:
            shortage = self._shortages[limit] = _Shortage(self._now())
            log.error("%s; until then clients may get 503, or be reset", ADVICE[limit] % {"most": self._most})
        shortage.seen_at = self._now()
        shortage.count += 1

    def sweep(self) -> None:
        """Once a second: see whether any file can be opened, and what is over.

        Where none can, the event loop closes clients' connections as they come, and tells nobody (libuv's
        `uv__emfile_trick`, https://github.com/libuv/libuv/blob/v1.x/src/unix/stream.c, read 2026-12-03).
        """
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            limit = limit_of(error)
            if limit is not None:
                self.met("look", limit)
        for limit, shortage in list(self._shortages.items()):
            if self._now() - shortage.seen_at >= QUIET_SECONDS:
                del self._shortages[limit]
                log.warning("%s suffice again, after %d times that they did not", limit, shortage.count)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Every series; called by the registry."""
        yield counter(
            "hypertier_router_own_limits",
            "Times that this machine had no more to give, by what asked for it and what was missing.",
            ["at", "limit"],
            self.counts,
        )
