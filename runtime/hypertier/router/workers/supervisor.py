"""`hypertier router --workers N`: opens what all listen on, starts the workers, and keeps them going."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any

from hypertier.errors import ConfigError, WorkerError
from hypertier.router.discovery.addresses import Address
from hypertier.router.process.asked import ended, heard
from hypertier.router.process.open_files import allow_all_open_files
from hypertier.router.settings import RouterSettings
from hypertier.router.workers import sockets
from hypertier.router.workers.admin import WorkersAdmin
from hypertier.router.workers.plan import (
    hears_others,
    peer_address,
    ports_of_a_router,
    shares_news,
    worker_settings,
)
from hypertier.router.workers.process import Worker

log = logging.getLogger("hypertier.router")

START_SECONDS = 120.0
"""Until a worker serves: each engine is asked for its health and its models first."""
SILENT_SECONDS = 30.0
"""A worker says that it is alive each second; one that does not is stuck, and is killed."""
STEADY_SECONDS = 60.0
"""A worker that served for so long and ends is started again at once, as one that ends for the first time."""
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 30.0
MAX_FAILED_STARTS = 5
MAX_LEAVING = 2
"""Of each worker, those that it replaced and that finish what they have; each has an index of its own."""
EXIT_SECONDS = 15.0
"""Beyond the time to drain, for a worker to end by itself."""


def pause_before(last: float | None, served_seconds: float) -> float:
    """Seconds until a worker that ended is started again; `last` is the pause before it, None for no such.

    The first end may be chance, and is made good at once; further ones of workers that are young wait longer
    and longer, so that what makes all of them end costs little.
    """
    if last is None or served_seconds > STEADY_SECONDS:
        return 0.0
    return min(max(2 * last, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)


class Supervisor:
    """The workers of one router, and all sockets that they serve on.

    A worker that ends unasked is started again after `pause_before`; until then another serves on its
    sockets, too, so that nobody waits there. `restarts` counts by cause: `exit`, `signal` or `silent`;
    `reloads` by result. Where one can't be started MAX_FAILED_STARTS times in a row and no other serves, that
    ends the router, by its `failure`.
    """

    def __init__(
        self,
        settings: RouterSettings,
        *,
        start_worker: Callable[..., Awaitable[Worker]] = Worker.start,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        assert settings.workers is not None
        self.settings = settings
        self.restarts: Counter[str] = Counter()
        self.reloads: Counter[str] = Counter()
        self.failure: WorkerError | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.current: list[Worker | None] = [None] * settings.workers
        self.leaving: set[Worker] = set()
        self.num_healthy = 0  # replicas, once started
        self._ending = asyncio.Event()
        self.admin = WorkersAdmin(self)
        self._changing = [asyncio.Lock() for _ in range(settings.workers)]
        self._tasks: set[asyncio.Task[None]] = set()
        self._start_worker = start_worker
        self._sleep = sleep
        self._now = asyncio.get_running_loop().time

    @property
    def workers(self) -> list[Worker]:
        """Those that live, one that another has replaced among them."""
        return [one for one in self.current if one is not None] + list(self.leaving)

    @property
    def stopping(self) -> bool:
        """It ends, and starts nobody any more."""
        return self._ending.is_set()

    @property
    def port(self) -> int:
        """The clients' port, known once started."""
        return int(self._clients[0][0].getsockname()[1])

    @property
    def metrics_port(self) -> int:
        """The port of `/metrics`, known once started."""
        return self.admin.port

    async def start(self) -> None:
        """Open everything, and start the workers.

        The first goes alone, so that what can't work is said once. Raises ConfigError or WorkerError.
        """
        settings, number = self.settings, len(self.current)
        self._clients = sockets.bind_group("--listen", settings.address, number)
        self._peers = [
            sockets.bind("--peer-listen", peer_address(settings, slot))
            for slot in range(number if shares_news(settings) or hears_others(settings) else 0)
        ]
        await self.admin.start()
        try:
            first = self.current[0] = await self._begin(0)
            begun = await asyncio.gather(*map(self._begin, range(1, number)), return_exceptions=True)
            problems = [worker for worker in begun if isinstance(worker, BaseException)]
            self.current[1:] = [None if isinstance(worker, BaseException) else worker for worker in begun]
            if problems:
                raise problems[0]
        except BaseException:
            await self.stop()
            raise
        for slot in range(number):
            self._do(self._keep(slot))
        self._do(self._watch())
        self.num_healthy = first.ready.result()

    async def reload(self) -> None:
        """Replace every worker, one after the other, each once another serves in its place.

        Where MAX_LEAVING of a worker's predecessors still drain, that waits for one of them, for as long as
        they may take: no request is cut off for it, and who asks often has no pile of processes.
        """
        for slot in range(len(self.current)):
            await self._few_leave(slot)
            if self.current[slot] is None:  # it is started until it starts, with what is new
                continue
            async with self._changing[slot]:
                old = self.current[slot]
                if old is None or self.stopping:  # a new one is on its way
                    continue
                try:
                    new = self.current[slot] = await self._begin(slot)
                except WorkerError as error:
                    self.reloads["failed"] += 1
                    log.error("the reload ends, and worker %d and those after it stay: %s", slot, error)
                    return
                self.leaving.add(old)
                log.info("worker %d: process %d takes over from %d", slot, new.pid, old.pid)
                self._do(self._part_with(old))
        self.reloads["good"] += 1

    async def drain(self, hurry: asyncio.Event) -> None:
        """Have all workers drain, and return once they have ended; at once where `hurry` is set."""
        self._ending.set()
        # The last copies of the sockets are the workers': what waits there is theirs, to take or to refuse.
        self._close_sockets()
        for worker in self.workers:
            worker.tell("drain")
        seconds = self.settings.lameduck_seconds + self.settings.drain_seconds + EXIT_SECONDS
        if not await ended(self._all_ended(), seconds, hurry) and hurry.is_set():
            for worker in self.workers:
                worker.tell("hurry")
            await ended(self._all_ended(), EXIT_SECONDS)
        await self.stop()

    async def stop(self) -> None:
        """End everything now."""
        self._ending.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self.workers:
            worker.kill()
        await self._all_ended()
        self._close_sockets()
        await self.admin.stop()

    async def _all_ended(self) -> None:
        await asyncio.gather(*(worker.ended() for worker in self.workers))

    def _close_sockets(self) -> None:
        for group in (*self._clients, self._peers):
            sockets.close(group)

    async def _begin(self, slot: int) -> Worker:
        """Start one, and return it once it serves. Raises WorkerError."""
        settings = self.settings
        told = [Address(str(one.getsockname()[0]), one.getsockname()[1]) for one in self._peers]
        try:
            worker = await self._start_worker(
                slot,
                worker_settings(settings, slot, told),
                self._clients,
                self._peers[slot] if self._peers else None,
                ports_of_a_router(settings),
            )
        except (OSError, ConfigError) as error:  # this machine has no more processes, files or memory to give
            raise WorkerError(f"worker {slot} can't be started: {error}") from error
        self.leaving.add(worker)  # whatever comes of it, it is one to end
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.shield(worker.ready)
        except TimeoutError:
            worker.kill()
            await worker.ended()
            raise WorkerError(f"worker {slot} did not serve within {START_SECONDS:g} s") from None
        except WorkerError:
            await worker.ended()
            raise
        finally:
            if worker.ready.done() or worker.exit_status is not None:
                self.leaving.discard(worker)
        return worker

    async def _keep(self, slot: int) -> None:
        """Start another, as often as the one that serves there ends unasked."""
        pause: float | None = None
        while True:
            worker = self.current[slot]
            assert worker is not None
            status = await worker.ended()
            if self.stopping:
                return
            self._cover()
            async with self._changing[slot]:
                if worker is not self.current[slot]:  # it was replaced, maybe just now
                    continue
                cause = "silent" if worker.is_silent else "exit" if status >= 0 else "signal"
                self.restarts[cause] += 1
                pause = pause_before(pause, self._now() - worker.started_at)
                log.error("worker %d ended with %d (%s); another starts in %g s", slot, status, cause, pause)
                self.admin.retain(worker)
                self.current[slot] = None
                await self._sleep(pause)
                try:
                    self.current[slot] = await self._start_again(slot)
                except WorkerError as error:
                    self.failure = error
                    self.on_failure()
                    return
                if self.current[slot] is None:
                    return
                self._cover()

    async def _start_again(self, slot: int) -> Worker | None:
        """Try until one serves; None where all ends meanwhile. Raises WorkerError, see the class."""
        for attempt in count(1):
            if self.stopping:
                return None
            try:
                return await self._begin(slot)
            except WorkerError as error:
                log.error("worker %d does not start, try %d: %s", slot, attempt, error)
                is_alone = not any(one is not None and one.serves for one in self.current)
                if attempt >= MAX_FAILED_STARTS and is_alone:
                    raise WorkerError(
                        f"worker {slot} did not start {attempt} times in a row, last since: {error}"
                    ) from error
            await self._sleep(min(MIN_PAUSE_SECONDS * 2 ** (attempt - 1), MAX_PAUSE_SECONDS))
        return None

    async def _few_leave(self, slot: int) -> None:
        """Return once less than MAX_LEAVING drain there."""
        while True:
            leaving = [
                one for one in self.leaving if one.slot == slot and one.is_leaving and one.exit_status is None
            ]
            if len(leaving) < MAX_LEAVING or self.stopping:
                return
            log.warning(
                "the reload waits: processes %s, which worker %d replaced, still finish what they have",
                ", ".join(str(one.pid) for one in sorted(leaving, key=lambda one: one.started_at)),
                slot,
            )
            ends = [asyncio.ensure_future(one.ended()) for one in leaving]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()

    def _cover(self) -> None:
        """Have one that serves do so on the sockets of those that are away, too."""
        away = [slot for slot, worker in enumerate(self.current) if worker is None or not worker.serves]
        first = True
        for worker in self.current:
            if worker is not None and worker.serves:
                worker.tell("cover", slots=away if first else [])
                first = False

    async def _part_with(self, old: Worker) -> None:
        """Let one that was replaced finish what it has."""
        old.is_leaving = True
        old.tell("leave")
        self._cover()
        try:
            async with asyncio.timeout(self.settings.drain_seconds + EXIT_SECONDS):
                await old.ended()
        except TimeoutError:
            log.error("process %d, which was replaced, does not end; it is killed", old.pid)
            old.kill()
            await old.ended()
        self.admin.retain(old)
        self.leaving.discard(old)

    async def _watch(self) -> None:
        """End those that are stuck."""
        while True:
            await asyncio.sleep(1.0)
            self.admin.tick += 1
            self.admin.sweep()
            for worker in self.workers:
                if self._now() - worker.heard_at > SILENT_SECONDS and not worker.is_silent:
                    log.error("worker %d said nothing for %g s; it is killed", worker.slot, SILENT_SECONDS)
                    worker.is_silent = True
                    worker.kill()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self.failure is None:
            log.critical("the router ends: its supervisor failed", exc_info=error)
            self.failure = WorkerError(f"the supervisor failed: {error!r}")
            self.on_failure()


async def supervise(settings: RouterSettings, *, started: Callable[[Supervisor], None]) -> None:
    """Run until SIGTERM or SIGINT, then drain, until a second one; replace all workers on SIGHUP.

    `started` is called once all serve. Raises ConfigError, or WorkerError where workers can't be started.
    """
    asked_to_reload = asyncio.Event()
    with heard(asked_to_reload.set) as asked:
        supervisor = Supervisor(settings)
        supervisor.on_failure = asked.stop.set
        if not await asked.unless_stopped(supervisor.start()):
            log.info("ending: asked to before it served")
            return
        started(supervisor)
        reloading = asyncio.ensure_future(_reload_when(asked_to_reload, supervisor))
        await asked.stop.wait()
        reloading.cancel()
        await asyncio.gather(reloading, return_exceptions=True)
        log.info("draining %d worker(s) for up to %g s", len(supervisor.workers), settings.drain_seconds)
        await supervisor.drain(asked.hurry)
        if supervisor.failure is not None:
            raise supervisor.failure


async def _reload_when(asked: asyncio.Event, supervisor: Supervisor) -> None:
    while True:
        await asked.wait()
        asked.clear()
        log.info("reloading")
        await supervisor.reload()


def run(settings: RouterSettings, *, started: Callable[[Supervisor], None]) -> None:
    """`supervise` on a uvloop of its own. Workers may have as many open files as it may."""
    import uvloop

    allow_all_open_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(supervise(settings, started=started))
