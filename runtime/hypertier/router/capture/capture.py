"""Which exchanges are captured, and what is kept of them until they are written.

Nothing here can hold up or fail a request: what has no room is not captured, and is counted.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from hypertier.router.admission import Grant
from hypertier.router.api.openai import Refusal
from hypertier.router.capture.records import Record, line_of
from hypertier.router.capture.settings import INPUT, MIB, OUTPUT, CaptureSettings
from hypertier.router.capture.spool import Spool
from hypertier.router.http.heads import Request
from hypertier.router.http.sides import Client
from hypertier.router.process.stamps import Complaint
from hypertier.router.telemetry.families import counter

log = logging.getLogger("hypertier.router")

MAX_HELD_BYTES = 64 * MIB
"""Of records that are not written yet, in each process."""
MAX_HEAD_BYTES = 64 * 1024
RESULTS = ("captured", "not_answered", "busy", "spool_full", "failed")


class Capture:
    """Draws a share of the exchanges and writes them to the spool, in batches of one tenant each.

    `counts` says what came of those that were drawn, by `RESULTS`. `now` is the time of day, `draw` gives
    0.0 to 1.0.
    """

    def __init__(
        self,
        settings: CaptureSettings,
        *,
        now: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self.held_bytes = 0
        self._settings = settings
        self._now = now
        self._draw = draw
        self._spool = Spool(Path(settings.spool), settings.spool_bytes)
        self._batches: defaultdict[str, list[Record]] = defaultdict(list)
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="capture")
        self._complaint = Complaint(log.error, log.info)
        self._writes: set[asyncio.Future[None]] = set()
        self._ends_at_bytes = settings.max_payload_bytes + MAX_HEAD_BYTES

    def start(self) -> None:
        """Say at once what a file would fail by, as the first one is written after a while."""
        try:
            self._spool.check()
        except OSError as error:
            self._complain(error)

    def client(self, client: Client, request: Request, request_id: bytes, grant: Grant | None) -> Client:
        """Who is to get the answer: the client, or where this exchange is drawn, it and a record."""
        settings = self._settings
        if self._draw() * 100 >= settings.sampling_percentage or not request.body:
            return client
        limit = settings.max_payload_bytes
        takes_input = INPUT in settings.modes
        body = request.body
        record = Record(
            request_id.decode("latin-1"),
            grant.tenant if grant is not None else "",
            self._now(),
            (request.field(b"content-type") or b"").decode("latin-1"),
            bytes(body[:limit]) if takes_input else b"",
            is_salted=grant is not None and bool(grant.seed),
            truncated=(INPUT,) if takes_input and len(body) > limit else (),
        )
        self.held_bytes += record.num_bytes
        captured = CapturedClient(client, self, record)
        if self.held_bytes > MAX_HELD_BYTES:
            self.drop(record, "busy")
            return client
        weakref.finalize(captured.life, self.drop, record, "not_answered").atexit = False
        return captured

    def keep(self, record: Record, data: bytes) -> None:
        """A piece of the answer, as far as there is room for it."""
        room = self._ends_at_bytes - (record.num_bytes - len(record.payload))
        if not record.is_open or (record.answer and OUTPUT not in self._settings.modes):
            return
        if len(data) > room:
            data = data[: max(room, 0)]
            record.is_cut = True
        if self.held_bytes + len(data) > MAX_HELD_BYTES:
            self.drop(record, "busy")
            return
        record.answer.append(data)
        record.num_bytes += len(data)
        self.held_bytes += len(data)

    def drop(self, record: Record, result: str) -> None:
        """It is not captured, unless it was already."""
        if record.is_open:
            record.is_open = False
            self.counts[result] += 1
            self._release([record])

    def complete(self, record: Record) -> None:
        """It was answered whole."""
        if not record.is_open:
            return
        record.is_open = False
        batch = self._batches[record.tenant]
        batch.append(record)
        if len(batch) >= self._settings.batch_size:
            self._write(record.tenant)

    def sweep(self) -> None:
        """Once a second: write what has waited for long enough."""
        due = self._now() - self._settings.flush_seconds
        for tenant in [tenant for tenant, batch in self._batches.items() if batch[0].at <= due]:
            self._write(tenant)

    async def stop(self) -> None:
        """Write what is left."""
        for tenant in list(self._batches):
            self._write(tenant)
        await asyncio.gather(*self._writes, return_exceptions=True)
        self._writer.shutdown()

    def _write(self, tenant: str) -> None:
        batch = self._batches.pop(tenant)
        write = asyncio.get_running_loop().run_in_executor(self._writer, self._written, tenant, batch)
        self._writes.add(write)

        def done(write: asyncio.Future[None]) -> None:
            self._writes.discard(write)
            self._release(batch)

        write.add_done_callback(done)

    def _written(self, tenant: str, batch: Sequence[Record]) -> None:
        """In the writer's thread: lines to the spool, and what came of them."""
        try:
            lines = [line for record in batch if (line := line_of(record, self._settings)) is not None]
            has_room = not lines or self._spool.write(tenant, batch[0].at, lines)
        except Exception as error:
            self._complain(error)
            self.counts["failed"] += len(batch)
            return
        self._complaint.mended("captured requests are written again")
        self.counts["not_answered"] += len(batch) - len(lines)
        self.counts["captured" if has_room else "spool_full"] += len(lines)

    def _complain(self, error: Exception) -> None:
        """What it is about is never logged: it may be of what people said."""
        reason = error.strerror if isinstance(error, OSError) else None
        self._complaint.failed("captured requests are lost", reason or type(error).__name__)

    def _release(self, records: Sequence[Record]) -> None:
        for record in records:
            self.held_bytes -= record.num_bytes
            record.payload, record.answer, record.num_bytes = b"", [], 0


class _Life:
    """Ends with what holds it."""

    __slots__ = ("__weakref__",)


class CapturedClient(Client):
    """A client that is answered as ever, and a record of it.

    Weak references are for its `life`: where `Client` is compiled, those to a subclass that is not are not
    cleared at its end (mypyc 2.4, seen 2026-12-03), and a later collection of garbage crashes.
    """

    def __init__(self, client: Client, capture: Capture, record: Record) -> None:
        self.life = _Life()
        self._client = client
        self._capture = capture
        self._record = record

    @property
    def closes(self) -> bool:
        """See `sides.Client`."""
        return self._client.closes

    def write(self, data: bytes) -> None:
        """See `sides.Client`."""
        self._client.write(data)
        self._capture.keep(self._record, data)

    def finish(self, *, keep_alive: bool) -> None:
        """See `sides.Client`."""
        self._client.finish(keep_alive=keep_alive)
        self._capture.complete(self._record)

    def refuse(self, refusal: Refusal) -> None:
        """See `sides.Client`."""
        self._capture.drop(self._record, "not_answered")
        self._client.refuse(refusal)

    def truncate(self) -> None:
        """See `sides.Client`."""
        self._capture.drop(self._record, "not_answered")
        self._client.truncate()


class CaptureCounts(Collector):
    """What came of the exchanges that were drawn."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Every series; called by the registry."""
        yield counter(
            "hypertier_router_captures",
            "Exchanges drawn to be captured, by what came of it.",
            ["result"],
            self._capture.counts,
        )
