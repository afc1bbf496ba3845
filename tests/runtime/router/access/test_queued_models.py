"""The queue of a router that has engines of several models, which sleep, wake and are full apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fakes_access import CHAT
from fakes_engine import Answer, FakeEngine, RawClient, Stream, eventually, post, run_loop
from fakes_router import routed

from hypertier.router.access.gate import AccessGate
from hypertier.router.app import Router
from hypertier.router.replicas.replicas import State

QUEUE = "access: {queue: {maxInFlightPerReplica: 1, size: 8, timeout: 5s}}\n"


class World:
    """A router before engines of models of their names, with a queue for one request on each."""

    def __init__(self, router: Router) -> None:
        assert router._door is not None
        self.router = router
        self.gate: AccessGate = router._door.gate

    async def ask(self, model: str) -> RawClient:
        """A request on its way."""
        client = await RawClient.connect(self.router.port)
        client.send(post(CHAT, b'{"model": "%b", "prompt": "x"}' % model.encode()))
        return client

    async def state(self, engine: FakeEngine, state: State) -> None:
        """The router finds the engine like that."""
        replica = self.router.replicas.by_url[engine.url]
        await eventually(lambda: replica.state is state)

    @property
    def num_held(self) -> int:
        """Requests that wait for a replica."""
        holding = self.router.front._proxy.holding
        return len(holding) if holding is not None else 0


@asynccontextmanager
async def world(
    tmp_path: Path, *engines: FakeEngine, policy: str = QUEUE, **given: Any
) -> AsyncIterator[World]:
    (tmp_path / "access.yaml").write_text(policy)
    settings = {"access": str(tmp_path / "access.yaml"), "health_interval_seconds": 0.02} | given
    async with routed(*engines, **settings) as router:
        yield World(router)


def test_a_flood_for_one_model_keeps_no_request_for_another_from_an_idle_engine(tmp_path: Path) -> None:
    stream = Stream(["a"])
    full, idle = FakeEngine(stream, models=("full",)), FakeEngine(models=("idle",))

    async def act() -> tuple[int, int, list[int]]:
        async with world(tmp_path, full, idle) as here:
            flood = [await here.ask("full") for _ in range(5)]
            await eventually(lambda: stream.begun == 1 and here.gate.num_waiting == 4)
            told = await (await here.ask("idle")).answer()
            num_waiting = here.gate.num_waiting
            stream.go.set()
            return told.status, num_waiting, [(await client.answer()).status for client in flood]

    assert run_loop(act()) == (200, 4, [200] * 5)


def test_one_that_waits_for_a_replica_keeps_no_other_from_an_engine(tmp_path: Path) -> None:
    sleeper, other = FakeEngine(models=("sleeper",)), FakeEngine(models=("other",))

    async def act() -> tuple[Answer, Answer, int]:
        async with world(tmp_path, sleeper, other, hold_seconds=60.0) as here:
            sleeper.healthy = False
            await here.state(sleeper, State.EJECTED)
            held = await here.ask("sleeper")
            await eventually(lambda: here.num_held == 1)
            told = await (await here.ask("other")).answer()
            sleeper.healthy = True
            woken = await held.answer()
            await eventually(lambda: here.router.replicas.in_flight == 0)
            return told, woken, here.gate.num_running

    told, woken, running = run_loop(act())

    assert (told.status, woken.status, running) == (200, 200, 0)


def test_one_that_waited_for_a_replica_counts_again_once_it_is_sent(tmp_path: Path) -> None:
    stream = Stream(["a"])
    engine = FakeEngine(stream, models=("m",), healthy=False)

    async def act() -> tuple[int, int]:
        async with world(tmp_path, engine, hold_seconds=60.0) as here:
            first = await here.ask("m")
            await eventually(lambda: here.num_held == 1)
            assert here.gate.num_running == 0
            engine.healthy = True
            await eventually(lambda: stream.begun == 1)
            second = await here.ask("m")
            await eventually(lambda: here.gate.num_waiting == 1)
            stream.go.set()
            return (await first.answer()).status, (await second.answer()).status

    assert run_loop(act()) == (200, 200)


def test_a_client_that_leaves_while_it_waits_for_a_replica_frees_no_room_twice(tmp_path: Path) -> None:
    engine = FakeEngine(models=("m",), healthy=False)

    async def act() -> tuple[int, int]:
        async with world(tmp_path, engine, hold_seconds=60.0) as here:
            client = await here.ask("m")
            await eventually(lambda: here.num_held == 1)
            client.close()
            await eventually(lambda: here.num_held == 0)
            return here.gate.num_running, sum(tenant.limits.in_flight for tenant in here.gate.tenants)

    assert run_loop(act()) == (0, 0)
