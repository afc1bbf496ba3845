"""What the supervisor does as workers come and go; the workers are objects here, the sockets real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from fakes_engine import RawClient, eventually, get, run_loop

from hypertier.errors import WorkerError
from hypertier.router.settings import RouterSettings
from hypertier.router.workers.supervisor import STEADY_SECONDS, Supervisor, pause_before

PAGE = '# TYPE hypertier_router_requests_total counter\nhypertier_router_requests_total{{status="2xx"}} {}\n'


@dataclass(eq=False)
class FakeWorker:
    """A worker that does as the test says: it serves once `ready` is done, and ends with `end`."""

    slot: int
    pid: int
    page: str = ""
    told: list[dict[str, Any]] = field(default_factory=list)
    has_requests: bool = False
    is_silent: bool = False
    is_leaving: bool = False
    exit_status: int | None = None

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.heard_at = self.started_at = loop.time()
        self.ready: asyncio.Future[int] = loop.create_future()
        self.pages_told = asyncio.Event()
        self.pages_told.set()
        self.num_asked = 0
        self._ended: asyncio.Future[int] = loop.create_future()

    @property
    def serves(self) -> bool:
        return self.ready.done() and not self.is_leaving and self.exit_status is None

    def tell(self, do: str, **more: Any) -> None:
        self.told.append({"do": do, **more})
        if do in ("drain", "leave") and not self.has_requests:
            self.end(0)

    def kill(self) -> None:
        self.end(-9)

    def end(self, status: int) -> None:
        if self.exit_status is None:
            self.exit_status = status
            self._ended.set_result(status)

    async def ended(self) -> int:
        return await asyncio.shield(self._ended)

    async def read_page(self) -> bool:
        self.num_asked += 1
        await self.pages_told.wait()
        return self.exit_status is None


class Started:
    """Starts workers, of which the first `num_ready` serve at once; `problems` come in place of the next."""

    def __init__(self, num_ready: int) -> None:
        self.workers: list[FakeWorker] = []
        self.problems: list[Exception] = []
        self.num_ready = num_ready
        self.hold: asyncio.Event | None = None  # until which those that start now do not

    async def __call__(self, slot: int, *_: Any) -> FakeWorker:
        if self.hold is not None:
            await self.hold.wait()
        if self.problems:
            raise self.problems.pop(0)
        worker = FakeWorker(slot, 100 + len(self.workers))
        self.workers.append(worker)
        if len(self.workers) <= self.num_ready:
            worker.ready.set_result(1)
        return worker


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


def supervised(act: Callable[[Supervisor, Started], Awaitable[None]], *, num_workers: int) -> None:
    """Act on a supervisor all of whose workers serve, and which waits for nothing."""

    async def run() -> None:
        settings = RouterSettings(
            replicas=("http://127.0.0.1:9",),
            strategy="roundrobin",
            listen="127.0.0.1:0",
            metrics_port=0,
            workers=num_workers,
        )
        started = Started(num_workers)
        supervisor = Supervisor(settings, start_worker=started, sleep=no_pause)  # type: ignore[arg-type]
        await supervisor.start()
        try:
            await act(supervisor, started)
        finally:
            await supervisor.stop()

    run_loop(run())


async def _requests_counted(supervisor: Supervisor) -> str:
    client = await RawClient.connect(supervisor.metrics_port)
    client.send(get(b"/metrics"))
    page = (await client.answer()).body.decode()
    return next(line for line in page.splitlines() if line.startswith("hypertier_router_requests_total"))


def test_worker_that_ends_while_its_successor_starts_is_replaced_once() -> None:
    async def act(supervisor: Supervisor, started: Started) -> None:
        reload = asyncio.create_task(supervisor.reload())
        await eventually(lambda: len(started.workers) == 2)
        old, new = started.workers
        old.page, new.page = PAGE.format(3), PAGE.format(4)

        old.end(1)
        await eventually(lambda: not supervisor.current[0].serves)  # type: ignore[union-attr]
        new.ready.set_result(1)
        await reload
        await eventually(lambda: not supervisor.leaving)

        assert supervisor.workers == [new]
        assert started.workers == [old, new]
        assert (await _requests_counted(supervisor)).endswith(" 7.0")

    supervised(act, num_workers=1)


def test_who_waits_for_a_worker_that_ended_is_served_while_its_successor_starts() -> None:
    async def act(supervisor: Supervisor, started: Started) -> None:
        reload = asyncio.create_task(supervisor.reload())
        await eventually(lambda: len(started.workers) == 3)

        started.workers[0].end(1)
        await eventually(lambda: bool(started.workers[1].told))

        assert started.workers[1].told == [{"do": "cover", "slots": [0]}]
        reload.cancel()

    supervised(act, num_workers=2)


def test_reload_without_a_process_to_be_had_fails_and_the_next_one_is_tried() -> None:
    async def act(supervisor: Supervisor, started: Started) -> None:
        before = list(supervisor.workers)
        started.problems.append(BlockingIOError(11, "Resource temporarily unavailable"))

        await supervisor.reload()

        assert supervisor.reloads == {"failed": 1}
        assert supervisor.workers == before
        assert supervisor.failure is None

    supervised(act, num_workers=2)


def test_worker_that_ends_while_pages_are_read_is_counted_once() -> None:
    async def act(supervisor: Supervisor, started: Started) -> None:
        worker = started.workers[0]
        worker.page = PAGE.format(3)
        worker.pages_told.clear()
        counted = asyncio.create_task(_requests_counted(supervisor))
        await eventually(lambda: worker.num_asked == 1)

        worker.end(1)
        await eventually(lambda: supervisor.restarts["exit"] == 1)
        worker.pages_told.set()

        assert (await counted).endswith(" 3.0")

    supervised(act, num_workers=1)


def test_who_asks_is_answered_whatever_a_worker_said() -> None:
    async def act(supervisor: Supervisor, started: Started) -> None:
        started.workers[0].page = "# TYPE a counter\na{"
        client = await RawClient.connect(supervisor.metrics_port)

        client.send(get(b"/metrics"))

        assert (await client.answer()).status == 500

    supervised(act, num_workers=1)


def test_where_one_of_the_first_workers_cannot_serve_all_others_end() -> None:
    async def run() -> None:
        settings = RouterSettings(
            replicas=("http://127.0.0.1:9",),
            strategy="roundrobin",
            listen="127.0.0.1:0",
            metrics_port=0,
            workers=3,
        )
        started = Started(3)

        async def start(slot: int, *more: Any) -> FakeWorker:
            if slot == 1:
                raise OSError("no more processes")
            return await started(slot, *more)

        with pytest.raises(WorkerError, match="no more processes"):
            await Supervisor(settings, start_worker=start).start()  # type: ignore[arg-type]

        assert [worker.exit_status for worker in started.workers] == [-9, -9]

    run_loop(run())


def test_first_end_is_made_good_at_once_and_young_ones_in_a_row_wait_longer() -> None:
    pause, pauses = None, []
    for _ in range(9):
        pause = pause_before(pause, served_seconds=1.0)
        pauses.append(pause)

    assert pauses == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert pause_before(30.0, served_seconds=STEADY_SECONDS + 1) == 0.0


def test_a_worker_that_does_not_start_is_tried_as_long_as_another_serves() -> None:
    async def act(supervisor: Supervisor, started: Started) -> None:
        started.problems += [OSError("no more processes")] * 20
        started.num_ready = 3

        started.workers[0].end(-9)
        await eventually(lambda: supervisor.current[0] is started.workers[-1])

        assert (len(started.workers), supervisor.failure) == (3, None)

    supervised(act, num_workers=2)


def test_a_worker_that_does_not_start_ends_the_router_where_none_serves() -> None:
    async def act(supervisor: Supervisor, started: Started) -> None:
        started.problems += [OSError("no more processes")] * 20

        started.workers[0].end(-9)
        await eventually(lambda: supervisor.failure is not None)

        assert "did not start 5 times in a row" in str(supervisor.failure)
        assert len(started.problems) == 15

    supervised(act, num_workers=1)


def test_a_reload_passes_over_a_worker_that_does_not_start() -> None:
    async def act(supervisor: Supervisor, started: Started) -> None:
        started.num_ready = 3
        starting = started.hold = asyncio.Event()
        started.workers[0].end(-9)
        await eventually(lambda: supervisor.current[0] is None)
        started.hold = None

        await supervisor.reload()

        assert supervisor.current == [None, started.workers[-1]]
        starting.set()

    supervised(act, num_workers=2)


def test_many_reloads_leave_no_pile_of_processes_that_drain(caplog: pytest.LogCaptureFixture) -> None:
    async def act(supervisor: Supervisor, started: Started) -> None:
        started.num_ready = 9
        for _ in range(2):
            started.workers[-1].has_requests = True
            await supervisor.reload()
        reload = asyncio.create_task(supervisor.reload())
        await eventually(lambda: reload.done() or "still finish what they have" in caplog.text)
        before = len(started.workers)

        started.workers[0].end(0)
        await reload

        assert (before, len(started.workers)) == (3, 4)
        assert supervisor.current == [started.workers[-1]]

    supervised(act, num_workers=1)
