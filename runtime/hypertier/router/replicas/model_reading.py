"""Asking every replica which models it serves: when it becomes healthy, and now and then after that."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from hypertier.errors import HttpError, ModelListError
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.engine_http import ask
from hypertier.router.process.tasks import Tasks
from hypertier.router.replicas.models import Models
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State

READ_SECONDS = 30.0
"""Adapters come and go while an engine runs."""
TIMEOUT_SECONDS = 5.0
MAX_BYTES = 16 * 2**20
"""vLLM takes some 500 for a model."""

Entries = Sequence[Mapping[str, Any]]


async def fetch(address: Address) -> Entries:
    """The `data` of one `GET /v1/models`. Raises ModelListError."""
    request = (
        f"GET /v1/models HTTP/1.1\r\nHost: {address}\r\nUser-Agent: hypertier-router\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
    try:
        status, body = await ask(address, request, timeout_seconds=TIMEOUT_SECONDS, max_bytes=MAX_BYTES)
        if status != 200:
            raise ModelListError(f"/v1/models answered with {status}")
        data = msgspec.json.decode(body)["data"]  # of ten thousand models in a fifth of json's time
        if not isinstance(data, list):
            raise ModelListError("/v1/models holds no list")
    except (HttpError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelListError(f"/v1/models: {error}") from error
    return data


class ModelReading:
    """One task a healthy replica; `readings` counts what came of it: `good` or `failed`."""

    def __init__(
        self,
        replicas: ReplicaSet,
        models: Models,
        *,
        read_seconds: float = READ_SECONDS,
        fetch: Callable[[Address], Awaitable[Entries]] = fetch,
        failures: Counter[str] | None = None,
    ) -> None:
        self.readings: Counter[str] = Counter()
        self._models = models
        self._read_seconds = read_seconds
        self._fetch = fetch
        self._tasks: Tasks[Replica] = Tasks("reading of models", failures)
        self._first: dict[Replica, asyncio.Event] = {}
        replicas.watch(self._changed)

    async def first_round(self) -> None:
        """Return once each replica that is healthy now was asked, or did not answer in time."""
        await asyncio.gather(*(event.wait() for event in list(self._first.values())))

    async def stop(self) -> None:
        """Ask no more."""
        for first in self._first.values():
            first.set()
        await self._tasks.stop()

    def _changed(self, replica: Replica, reason: str) -> None:
        if replica.state is not State.HEALTHY:
            self._leave(replica)
        elif replica not in self._tasks:
            self._first[replica] = asyncio.Event()
            self._models.expect(replica)
            self._tasks.start(replica, lambda: self._run(replica))

    def _leave(self, replica: Replica) -> None:
        self._tasks.end(replica)
        first = self._first.pop(replica, None)
        if first is not None:
            first.set()

    async def _run(self, replica: Replica) -> None:
        first = self._first[replica]
        while True:
            try:
                entries = await self._fetch(replica.address)
                self.readings["good"] += 1
                self._models.learn(replica, entries)
            except ModelListError:
                self.readings["failed"] += 1
            finally:
                first.set()
                self._models.asked(replica)
            await asyncio.sleep(self._read_seconds)
