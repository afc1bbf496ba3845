"""Asking every replica which models it serves: when it becomes healthy, and now and then after that."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hypertier.errors import ModelListError
from hypertier.router import tls
from hypertier.router.models import Models
from hypertier.router.replicas import Replica, ReplicaSet, State
from hypertier.router.settings import Address

READ_SECONDS = 30.0
"""Adapters come and go while an engine runs."""
TIMEOUT_SECONDS = 5.0
MAX_BYTES = 4 * 2**20

Entries = Sequence[Mapping[str, Any]]


def fetch(address: Address) -> Entries:
    """The `data` of one `GET /v1/models`. Raises ModelListError."""
    connection = tls.connection(address.host, address.port, TIMEOUT_SECONDS, address.tls)
    try:
        connection.request("GET", "/v1/models", headers={"User-Agent": "hypertier-router"})
        response = connection.getresponse()
        body = response.read(MAX_BYTES)
        if response.status != 200:
            raise ModelListError(f"/v1/models answered with {response.status}")
        data = json.loads(body)["data"]
        if not isinstance(data, list):
            raise ModelListError("/v1/models holds no list")
        return data
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise ModelListError(f"/v1/models: {error!r}") from error
    finally:
        connection.close()


class ModelReading:
    """One task a healthy replica; `readings` counts what came of it: `good` or `failed`."""

    def __init__(
        self,
        replicas: ReplicaSet,
        models: Models,
        *,
        read_seconds: float = READ_SECONDS,
        fetch: Callable[[Address], Entries] = fetch,
    ) -> None:
        self.readings: Counter[str] = Counter()
        self._models = models
        self._read_seconds = read_seconds
        self._fetch = fetch
        self._tasks: dict[Replica, asyncio.Task[None]] = {}
        self._first: dict[Replica, asyncio.Event] = {}
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="models")
        replicas.watch(self._changed)

    async def first_round(self) -> None:
        """Return once each replica that is healthy now was asked, or did not answer in time."""
        await asyncio.gather(*(event.wait() for event in list(self._first.values())))

    async def stop(self) -> None:
        """Ask no more."""
        tasks = list(self._tasks.values())
        for replica in list(self._tasks):
            self._leave(replica)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _changed(self, replica: Replica, reason: str) -> None:
        if replica.state is not State.HEALTHY:
            self._leave(replica)
        elif replica not in self._tasks:
            self._first[replica] = asyncio.Event()
            self._tasks[replica] = asyncio.get_running_loop().create_task(self._run(replica))

    def _leave(self, replica: Replica) -> None:
        task = self._tasks.pop(replica, None)
        first = self._first.pop(replica, None)
        if first is not None:
            first.set()
        if task is not None:
            task.cancel()

    async def _run(self, replica: Replica) -> None:
        first = self._first[replica]
        while True:
            try:
                loop = asyncio.get_running_loop()
                entries = await loop.run_in_executor(self._threads, self._fetch, replica.address)
            except ModelListError:
                self.readings["failed"] += 1
            else:
                self.readings["good"] += 1
                self._models.learn(replica, entries)
            first.set()
            await asyncio.sleep(self._read_seconds)
