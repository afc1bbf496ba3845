"""Finding replicas by Kubernetes' EndpointSlices: a list, then a watch that tells every change at once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote, urlencode

from hypertier.errors import ApiServerError
from hypertier.router.discovery.addresses import Address, Service
from hypertier.router.discovery.api_server import ApiServer
from hypertier.router.discovery.endpoint_slices import EndpointSlices
from hypertier.router.replicas.replicas import Listed
from hypertier.router.telemetry.metrics import DiscoveryCounts

WATCH_SECONDS = 120
"""The server ends each watch after this long and the next goes on where it ended, so that a connection that
died without a word is found: the server speaks at least that often."""
SLACK_SECONDS = 10.0
LIST_SECONDS = 60.0
"""A list that takes longer is given up: the API server's own bound for all that is no watch, its
`--request-timeout` (https://github.com/kubernetes/kubernetes/pull/51415, read 2026-12-03)."""
RESYNC_SECONDS = 600.0
"""All is listed anew this often, whatever the watches told."""
RETRY_RESYNC_SECONDS = 60.0
"""Where that fails, watches go on, and it is tried again after so long."""
MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.2, 15.0
SHORT_WATCH_SECONDS = 1.0
"""A watch that a server ends well, but so soon, is none: to ask again at once would go on without end."""
CHANGES_A_TURN = 50
"""So many replicas come, and so many go, in one turn of the event loop."""
STEADY_SECONDS = 10.0
"""What fails after so long, as where something between cuts quiet connections, is no failure in a row; nor is
a watch that told something before it was cut."""

_NOT_UNDERSTOOD = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class SliceDiscovery:
    """Keeps replicas in step with a Service's EndpointSlices; while the API is away the last list stays.

    https://kubernetes.io/docs/reference/using-api/api-concepts/ (read 2026-12-01): a watch goes on from the
    version of the last event or bookmark; 410 Gone, and an event that can't be used, ask for a new list.
    """

    def __init__(
        self,
        server: ApiServer,
        service: Service,
        listed: Listed,
        counts: DiscoveryCounts,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._server = server
        self._service = service
        self._listed = listed
        self._counts = counts
        self._now = now
        self._sleep = sleep
        self._slices = EndpointSlices(service.port)
        self._version: str | None = None
        self._resync_at = 0.0
        self._num_failures = 0
        self._has_failed = False
        self._has_told = False

    async def step(self) -> None:
        """List where that is due, then watch until the server ends it; what fails is counted.

        A list ends no row of failures: where no watch can follow, none is of use.
        """
        began = self._now()
        self._has_failed = self._has_told = False
        version = self._version
        if version is not None and began >= self._resync_at:
            self._resync_at = began + RETRY_RESYNC_SECONDS
            version = None
        try:
            if version is None:
                await self._list()
            else:
                await self._watch(version)
                self._num_failures = 0
        except ApiServerError as error:
            self._has_failed = True
            needs_list = error.cause in ("expired", "malformed")
            is_steady = self._now() - began >= STEADY_SECONDS or (self._has_told and not needs_list)
            self._num_failures = 1 if is_steady else self._num_failures + 1
            self._counts.failed(error.cause, str(error))
            if needs_list and version is not None:
                self._version = None

    async def run(self) -> None:
        """Step for ever; after failures wait, longer each time, so that routers do not all come at once."""
        while True:
            await self.step()
            if self._has_failed:
                longest = min(MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS * 2**self._num_failures)
                await self._sleep(random.uniform(MIN_BACKOFF_SECONDS, longest))

    async def _list(self) -> None:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                body = await self._server.read(self._target(), silence_seconds=SLACK_SECONDS)
        except TimeoutError as error:
            raise ApiServerError("timeout", f"a list took more than {LIST_SECONDS:g} s") from error
        try:
            answer = json.loads(body)
            version = str(answer["metadata"]["resourceVersion"])
            self._slices.replace(answer.get("items") or ())
        except _NOT_UNDERSTOOD as error:
            raise ApiServerError("malformed", f"not a list of EndpointSlices ({error!r})") from error
        self._version = version
        self._resync_at = self._now() + RESYNC_SECONDS
        self._counts.answered("list")
        await self._tell()

    async def _watch(self, version: str) -> None:
        target = self._target(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=version,
            timeoutSeconds=str(WATCH_SECONDS),
        )
        began = self._now()
        lines = self._server.lines(target, silence_seconds=WATCH_SECONDS + SLACK_SECONDS)
        async with aclosing(lines):
            async for line in lines:
                if line.strip() and self._apply(line):
                    await self._tell()
                if self._now() >= self._resync_at:
                    return
        if self._now() - began < SHORT_WATCH_SECONDS:
            raise ApiServerError("closed", "the server ended a watch at once")
        self._counts.answered("watched")

    def _apply(self, line: bytes) -> bool:
        """One event; whether it tells of a slice. Raises ApiServerError where only a new list helps."""
        try:
            event = json.loads(line)
            kind, thing = event["type"], event["object"]
            if kind == "ERROR":
                raise _watch_error(thing)
            version = str(thing["metadata"]["resourceVersion"])
            if kind in ("ADDED", "MODIFIED"):
                self._slices.put(thing)
            elif kind == "DELETED":
                self._slices.drop(thing)
            elif kind != "BOOKMARK":
                raise ApiServerError("malformed", f"an event of type {kind!r}")
        except _NOT_UNDERSTOOD as error:
            raise ApiServerError("malformed", f"not a watch's event ({error!r})") from error
        self._version = version
        self._has_told = True
        self._counts.answered(kind.lower())
        return bool(kind != "BOOKMARK")

    async def _tell(self) -> None:
        await tell(self._listed, *self._slices.changes())

    def _target(self, **query: str) -> str:
        selector = f"kubernetes.io/service-name={self._service.name}"
        path = f"/apis/discovery.k8s.io/v1/namespaces/{quote(self._service.namespace)}/endpointslices"
        return f"{path}?{urlencode({'labelSelector': selector, **query})}"


async def tell(listed: Listed, came: Sequence[Address], gone: Sequence[Address]) -> None:
    """Change a list in pieces: each replica that comes or goes is work for all who watch it."""
    for at in range(0, max(len(came), len(gone)), CHANGES_A_TURN):
        if at:
            await asyncio.sleep(0)
        listed.change(came[at : at + CHANGES_A_TURN], gone[at : at + CHANGES_A_TURN])


def _watch_error(status: Mapping[str, Any]) -> ApiServerError:
    code = status.get("code")
    return ApiServerError(
        "expired" if code in (410, 504) else f"status_{code}",
        f"the watch ended: {status.get('reason') or status.get('message')}",
    )
