"""Reading engines' `/metrics` for the size of their caches: seldom, since that makes a busy engine slower."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from hypertier import http_client
from hypertier.errors import HttpError, SizeError
from hypertier.router.discovery.addresses import Address
from hypertier.router.http import tls
from hypertier.router.process.tasks import Tasks
from hypertier.router.replicas.cache_sizes import CacheSizes, Reading, read
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State

READ_SECONDS = 180.0
"""From one reading of a replica to the next."""
RETRY_SECONDS = 30.0
TIMEOUT_SECONDS = 10.0
MAX_METRICS_BYTES = 16 * 2**20


def fetch(address: Address) -> Reading:
    """One `GET /metrics`, on a connection of its own. Raises SizeError."""
    try:
        reply = http_client.exchange(
            tls.connection(address.host, address.port, address.tls),
            "/metrics",
            timeout_seconds=TIMEOUT_SECONDS,
            max_bytes=MAX_METRICS_BYTES,
        )
    except HttpError as error:
        raise SizeError("failed", f"/metrics {error}") from error
    if reply.status != 200:
        raise SizeError("failed", f"/metrics answered with {reply.status}")
    return read(reply.body)


class Sizing:
    """Reads every replica when it becomes healthy, once more within `read_seconds`, then after each of them.

    So what a token is in bytes is known soon where there are several, and none is read often. `readings`
    counts what came of it: `good`; `failed`, which is tried again soon; `untold`, where the engine says
    nothing of a cache.
    """

    def __init__(
        self,
        replicas: ReplicaSet,
        sizes: CacheSizes,
        *,
        read_seconds: float = READ_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        fetch: Callable[[Address], Reading] = fetch,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        failures: Counter[str] | None = None,
    ) -> None:
        self.sizes = sizes
        self.readings: Counter[str] = Counter()
        self._read_seconds = read_seconds
        self._retry_seconds = retry_seconds
        self._fetch = fetch
        self._sleep = sleep
        self._tasks: Tasks[Replica] = Tasks("reading of caches", failures)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="sizing")
        replicas.watch(self._changed)

    async def stop(self) -> None:
        """Read no more."""
        for replica in self._tasks.keys:
            self.sizes.forget(replica)
        await self._tasks.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _changed(self, replica: Replica, reason: str) -> None:
        if replica.state is not State.HEALTHY:
            self._leave(replica)
        elif replica not in self._tasks:
            self._tasks.start(replica, lambda: self._run(replica))

    def _leave(self, replica: Replica) -> None:
        if self._tasks.end(replica):
            self.sizes.forget(replica)

    async def _run(self, replica: Replica) -> None:
        is_first = True
        while True:
            try:
                reading = await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._fetch, replica.address
                )
            except SizeError as error:
                self.readings[error.cause] += 1
                seconds = self._retry_seconds
            else:
                self.readings["untold" if reading.cache_tokens is None else "good"] += 1
                self.sizes.learn(replica, reading)
                seconds = self._read_seconds * (random.uniform(0.1, 1.0) if is_first else 1.0)
                is_first = False
            await self._sleep(seconds)
