"""With busy polling a loop sleeps while there is no client, and at no other time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

from fakes_engine import FakeEngine, RawClient, post
from fakes_router import routed

from hypertier.router.process.busy_polling import BusyPolling

NUM_POLLS = 20


class Polls(selectors.DefaultSelector):
    """Says whether a loop was ready to sleep."""

    def __init__(self) -> None:
        super().__init__()
        self._num_awake = 0
        self._told: asyncio.Future[bool] | None = None

    def select(self, timeout: float | None = None) -> list[Any]:
        if self._told is not None:
            self._num_awake += 1
            if timeout != 0 or self._num_awake == NUM_POLLS:
                self._told.set_result(timeout != 0)
                self._told, timeout = None, 0
        return super().select(timeout)

    async def would_sleep(self) -> bool:
        """One of the next polls waits for something."""
        self._num_awake = 0
        self._told = asyncio.get_running_loop().create_future()
        return await self._told


def run(polls: Polls, act: Coroutine[Any, Any, Any]) -> Any:
    async def closed() -> Any:
        try:
            return await asyncio.wait_for(act, 30)
        finally:
            RawClient.close_all()
            await asyncio.sleep(0)  # the transports' last callbacks

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(polls)) as runner:
        return runner.run(closed())


async def looked(polls: Polls) -> None:
    """Return once a change of the connections was seen."""
    while await polls.would_sleep():
        pass


def test_it_stays_awake_from_the_first_connection_to_the_end_of_the_last() -> None:
    polls = Polls()

    async def act() -> list[bool]:
        connections: set[str] = set()
        polling = BusyPolling(connections)
        polling.start()
        slept = [await polls.would_sleep()]
        connections.update(("one", "another"))
        await looked(polls)
        slept.append(await polls.would_sleep())
        connections.remove("one")
        slept.append(await polls.would_sleep())
        connections.clear()
        slept.append(await polls.would_sleep())
        polling.stop()
        return slept

    assert run(polls, act()) == [True, False, False, True]


class Looked(set[str]):
    """Counts how often it was asked whether anybody is there."""

    looks = 0

    def __len__(self) -> int:
        self.looks += 1
        return super().__len__()


def test_once_stopped_it_looks_for_nobody() -> None:
    connections = Looked(["one"])

    async def act() -> list[int]:
        polling = BusyPolling(connections)
        looks = []
        polling.start()
        for stop in (lambda: None, polling.stop, polling.stop):
            stop()
            for _ in range(10):
                await asyncio.sleep(0)
            looks.append(connections.looks)
        return looks

    first, *others = run(Polls(), act())
    assert first >= 10
    assert others == [first, first]


def test_a_router_is_awake_for_its_clients_alone() -> None:
    polls = Polls()

    async def act() -> tuple[int, list[bool]]:
        async with routed(FakeEngine(), busy_polling=True) as router:
            slept = [await polls.would_sleep()]
            client = await RawClient.connect(router.port)
            client.send(post(b"/v1/chat/completions", b"{}"))
            status = (await client.answer()).status
            await looked(polls)
            slept.append(await polls.would_sleep())
            client.close()
            await router.front.all_closed()
            slept.append(await polls.would_sleep())
            return status, slept

    assert run(polls, act()) == (200, [True, False, True])


def test_a_worker_that_was_replaced_leaves_its_cpu_to_the_other() -> None:
    polls = Polls()

    async def act() -> list[bool]:
        async with routed(FakeEngine(), busy_polling=True) as router:
            await RawClient.connect(router.port)
            await looked(polls)
            slept = [await polls.would_sleep()]
            hurry = asyncio.Event()
            drained = asyncio.create_task(router.drain(is_replaced=True, hurry=hurry))
            await asyncio.sleep(0)
            slept.append(await polls.would_sleep())
            hurry.set()
            await drained
            return slept

    assert run(polls, act()) == [False, True]
