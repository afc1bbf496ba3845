"""Requests that find no replica wait for one, and what becomes of those that wait."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fakes_engine import Answer, FakeEngine, RawClient, eventually, get, post, run_loop
from fakes_router import routed

from hypertier.errors import ConfigError
from hypertier.router.api.openai import Refusal
from hypertier.router.app import Router
from hypertier.router.discovery.addresses import Address
from hypertier.router.holding import Holding
from hypertier.router.replicas.replicas import ReplicaSet, State
from hypertier.router.settings import RouterSettings

CHAT = b"/v1/chat/completions"
BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'


def held(router: Router) -> int:
    return int(value(router, "hypertier_router_held"))


def value(router: Router, name: str) -> float:
    lines = router.metrics.text().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


async def ask(router: Router, *headers: bytes, body: bytes = BODY) -> RawClient:
    client = await RawClient.connect(router.port)
    client.send(post(CHAT, body, *headers))
    return client


def test_a_request_without_a_replica_is_sent_once_there_is_one() -> None:
    async def act() -> tuple[list[int], float, float, int]:
        engine = FakeEngine(healthy=False)
        async with routed(engine, hold_seconds=60.0, health_interval_seconds=0.02) as router:
            clients = [await ask(router) for _ in range(3)]
            await eventually(lambda: held(router) == 3)
            engine.healthy = True
            statuses = [(await client.answer()).status for client in clients]
            await eventually(lambda: router.replicas.in_flight == 0)
            return (
                statuses,
                value(router, 'hypertier_router_holds_total{end="sent"}'),
                value(router, "hypertier_router_wake_seconds"),
                held(router),
            )

    statuses, sent, wake_seconds, left = run_loop(act())

    assert (statuses, sent, left) == ([200] * 3, 3, 0)
    assert wake_seconds > 0


def test_one_that_waits_too_long_is_told_when_to_come_back() -> None:
    async def act() -> tuple[Answer, float]:
        async with routed(FakeEngine(healthy=False), hold_seconds=0.05) as router:
            client = await ask(router)
            return await client.answer(), value(router, 'hypertier_router_holds_total{end="timeout"}')

    answer, timeouts = run_loop(act())

    assert (answer.status, answer.header(b"retry-after"), timeouts) == (503, b"1", 1)
    assert json.loads(answer.body)["error"]["code"] == "no_replica"


def test_no_more_wait_than_may() -> None:
    async def act() -> tuple[int, int]:
        async with routed(FakeEngine(healthy=False), hold_seconds=60.0, hold_requests=1) as router:
            first = await ask(router)
            await eventually(lambda: held(router) == 1)
            status = (await (await ask(router)).answer()).status
            first.close()
            await eventually(lambda: held(router) == 0)
            return status, int(value(router, 'hypertier_router_holds_total{end="client_closed"}'))

    assert run_loop(act()) == (503, 1)


def test_the_time_that_the_client_gives_counts() -> None:
    async def act() -> tuple[int, int]:
        async with routed(FakeEngine(healthy=False), hold_seconds=60.0) as router:
            client = await ask(router, b"x-request-timeout: 0.05")
            return (await client.answer()).status, held(router)

    assert run_loop(act()) == (504, 0)


@pytest.mark.parametrize("hold_seconds", [0.0, 60.0], ids=["off", "on"])
def test_a_router_that_may_hold_is_healthy_without_a_replica(hold_seconds: float) -> None:
    async def act() -> list[int]:
        async with routed(FakeEngine(healthy=False), hold_seconds=hold_seconds) as router:
            client = await RawClient.connect(router.port)
            statuses = []
            for path in (b"/health", b"/v1/models"):  # what has no body never waits
                client.send(get(path))
                statuses.append((await client.answer()).status)
            return statuses

    assert run_loop(act()) == [200 if hold_seconds else 503, 503]


def test_a_request_whose_last_replica_goes_waits_for_it() -> None:
    async def act() -> tuple[int, float]:
        engine = FakeEngine()
        async with routed(engine, hold_seconds=60.0, health_interval_seconds=0.02) as router:
            assert (await (await ask(router)).answer()).status == 200
            port = engine.port
            await engine.kill()
            client = await ask(router)
            await eventually(lambda: held(router) == 1)
            again = FakeEngine(port=port)
            await again.start()
            status = (await client.answer()).status
            await again.kill()
            return status, value(router, 'hypertier_router_requests_total{replica="",')

    assert run_loop(act()) == (200, 0)


def test_a_model_that_the_last_replica_did_not_serve_waits_for_none() -> None:
    async def act() -> int:
        async with routed(FakeEngine(models=("m",)), hold_seconds=60.0) as router:
            router.replicas.replace([])
            await ask(router)
            await eventually(lambda: held(router) == 1)
            return (await (await ask(router, body=BODY.replace(b'"m"', b'"x"'))).answer()).status

    assert run_loop(act()) == 503


def test_one_that_waits_for_an_adapter_goes_on_once_a_replica_loaded_it() -> None:
    async def act() -> int:
        engine, other = FakeEngine(models=("m",)), FakeEngine(models=("m", "lora"))
        async with routed(engine, other, hold_seconds=60.0, health_interval_seconds=60.0) as router:
            (first, second) = router.replicas.by_url.values()
            router.replicas.eject(second, "gone")
            client = await ask(router, body=BODY.replace(b'"m"', b'"lora"'))
            await eventually(lambda: held(router) == 1)
            router._models.learn(first, [{"id": "m"}, {"id": "lora", "parent": "m"}])
            return (await client.answer()).status

    assert run_loop(act()) == 200


async def asked_for_b_without_replica(router: Router, model: bytes = b"b") -> RawClient:
    """The replica of `b` left, that of `a` is there, and somebody asks."""
    a, _ = router.replicas.by_url.values()
    router.replicas.replace([a.address])
    return await ask(router, body=BODY.replace(b'"m"', b'"%b"' % model))


@pytest.mark.parametrize("told", [("b",), ("b", "x")], ids=["a model", "and an adapter"])
def test_a_model_whose_replicas_all_left_waits_for_one_beside_other_models(told: tuple[str, ...]) -> None:
    async def act() -> tuple[int, int]:
        one, other = FakeEngine(models=("a",)), FakeEngine(models=told)
        async with routed(one, other, hold_seconds=60.0, health_interval_seconds=0.02) as router:
            addresses = [replica.address for replica in router.replicas.by_url.values()]
            client = await asked_for_b_without_replica(router, told[-1].encode())
            await eventually(lambda: held(router) == 1)
            router.replicas.replace(addresses)
            return (await client.answer()).status, len(one.received)

    assert run_loop(act()) == (200, 0)


@pytest.mark.parametrize(
    ("settings", "model"),
    [({"hold_seconds": 60.0}, b"c"), ({}, b"b")],
    ids=["unknown", "where nobody waits"],
)
def test_a_model_without_a_replica_that_may_come_is_not_found(settings: dict[str, Any], model: bytes) -> None:
    async def act() -> int:
        one, other = FakeEngine(models=("a",)), FakeEngine(models=("b",))
        async with routed(one, other, **settings) as router:
            return (await (await asked_for_b_without_replica(router, model)).answer()).status

    assert run_loop(act()) == 404


@pytest.mark.parametrize("configured", ["alias", "split"])
def test_a_model_that_an_alias_or_a_split_leads_to_waits_though_no_replica_ever_had_it(
    tmp_path: Path, configured: str
) -> None:
    (tmp_path / "routes.yaml").write_text("models: {m: {split: {b: 1}}}")
    settings: dict[str, Any] = {"model_alias": ("m=b",), "routes": str(tmp_path / "routes.yaml")}
    del settings["routes" if configured == "alias" else "model_alias"]

    async def act() -> tuple[int, list[bytes]]:
        one = FakeEngine(models=("a",))
        other = await FakeEngine(models=("b",)).start()
        async with routed(one, hold_seconds=60.0, health_interval_seconds=0.02, **settings) as router:
            client = await ask(router)
            await eventually(lambda: held(router) == 1)
            (a,) = router.replicas.by_url.values()
            router.replicas.replace([a.address, Address("127.0.0.1", other.port)])
            status = (await client.answer()).status
            return status, [request.body for request in other.received]

    assert run_loop(act()) == (200, [BODY.replace(b'"m"', b'"b"')])


class Request:
    """One that is held, and what became of it."""

    def __init__(self, *, fails: bool = False, is_served: bool = True) -> None:
        self.fails = fails
        self.is_served = is_served
        self.sent = 0
        self.refusals: list[Refusal] = []

    def has_replica(self) -> bool:
        return self.is_served

    def wake(self) -> None:
        self.sent += 1
        if self.fails:
            raise RuntimeError("a fault")

    def refuse(self, refusal: Refusal) -> None:
        self.refusals.append(refusal)


class World:
    """Replicas, of which one is known, and what is held for them under a clock that a test moves."""

    def __init__(self, *, size: int = 8) -> None:
        self.now = 1000.0
        self.replicas = ReplicaSet(lambda: self.now)
        self.replicas.replace([Address("10.0.0.1", 8000)])
        (self.replica,) = self.replicas.by_url.values()
        self.holding = Holding(self.replicas, seconds=600.0, size=size, now=lambda: self.now)

    async def wake(self, after: float) -> None:
        self.now += after
        self.replicas.admit(self.replica)
        await asyncio.sleep(0)

    def sleep(self, after: float) -> None:
        self.now += after
        self.replicas.eject(self.replica, "gone")


def test_retry_after_is_what_wakes_took_less_what_has_gone_by() -> None:
    async def act() -> list[int]:
        world = World()
        told = []
        for took in (100.0, 200.0):
            world.holding.hold(Request(), world.now)
            told.append(world.holding.retry_after_seconds)
            await world.wake(took)
            world.sleep(3600.0)
        world.holding.hold(Request(), world.now)
        told.append(world.holding.retry_after_seconds)
        world.now += 60.0
        told.append(world.holding.retry_after_seconds)
        return told

    assert run_loop(act()) == [600, 100, 150, 90]


def test_a_wake_that_nobody_waited_for_teaches_nothing() -> None:
    async def act() -> float | None:
        world = World()
        place = world.holding.hold(Request(), world.now)
        assert not isinstance(place, Refusal)
        place.cancel()
        await world.wake(5000.0)
        return world.holding.wake_seconds

    assert run_loop(act()) is None


def test_a_replica_that_does_not_serve_what_waits_is_no_wake() -> None:
    async def act() -> tuple[float | None, int, int]:
        world = World()
        request = Request(is_served=False)
        world.holding.hold(request, world.now)
        await world.wake(1.0)
        return world.holding.wake_seconds, request.sent, len(world.holding)

    assert run_loop(act()) == (None, 0, 1)


@pytest.mark.parametrize("end", ["sent", "timeout"])
def test_one_that_failed_and_waited_again_ended_once(end: str) -> None:
    async def act() -> tuple[int, dict[str, int]]:
        engine = FakeEngine(healthy=False)
        async with routed(engine, hold_seconds=60.0, health_interval_seconds=60.0) as router:
            holding, (replica,) = router.front._proxy.holding, router.replicas.by_url.values()
            assert holding is not None
            client = await ask(router)
            await eventually(lambda: len(holding) == 1)
            port = engine.port
            await engine.kill()
            router.replicas.admit(replica)  # it can't be connected to, so it waits again
            await eventually(lambda: len(holding) == 1 and replica.state is State.EJECTED)
            again = FakeEngine(port=port)
            if end == "sent":
                await again.start()
                router.replicas.admit(replica)
            else:
                holding.gave_up(*holding._places)
            answer = await client.answer()
            await eventually(lambda: router.replicas.in_flight == 0)
            await again.kill()
            return answer.status, dict(holding.ended)

    assert run_loop(act()) == (200 if end == "sent" else 503, {end: 1})


def test_those_that_a_replica_does_not_serve_wait_on() -> None:
    async def act() -> tuple[int, int, int]:
        world = World()
        served, other = Request(), Request(is_served=False)
        world.holding.hold(other, world.now)
        world.holding.hold(served, world.now)
        await world.wake(1.0)
        world.sleep(1.0)
        other.is_served = True
        before = other.sent
        await world.wake(1.0)
        return served.sent, before, other.sent

    assert run_loop(act()) == (1, 0, 1)


def test_a_wake_takes_from_the_first_of_those_that_it_serves() -> None:
    async def act() -> list[float | None]:
        world = World()
        served, other = Request(), Request(is_served=False)
        world.holding.hold(other, world.now)
        world.now += 100.0
        world.holding.hold(served, world.now)
        await world.wake(50.0)
        learned = [world.holding.wake_seconds]
        world.sleep(50.0)
        other.is_served = True
        await world.wake(0.0)
        return [*learned, world.holding.wake_seconds]

    assert run_loop(act()) == [50.0, 125.0]  # then 200 from when the other came, of which half counts


def test_one_whose_replica_went_as_it_came_waits_on() -> None:
    async def act() -> tuple[int, int]:
        world = World()
        request = Request()
        world.holding.hold(request, world.now)
        world.replicas.admit(world.replica)
        world.sleep(0.0)
        request.is_served = False
        await asyncio.sleep(0)
        before = request.sent
        request.is_served = True
        await world.wake(1.0)
        return before, request.sent

    assert run_loop(act()) == (0, 1)


def test_a_fault_in_sending_one_costs_that_one_alone() -> None:
    async def act() -> tuple[list[Refusal], int]:
        world = World()
        bad, good = Request(fails=True), Request()
        world.holding.hold(bad, world.now)
        world.holding.hold(good, world.now)
        await world.wake(1.0)
        return bad.refusals, good.sent

    refusals, sent = run_loop(act())

    assert ([refusal.status for refusal in refusals], sent) == ([500], 1)


def test_one_that_is_held_again_waits_no_longer_in_all() -> None:
    async def act() -> Refusal:
        world = World()
        refusal = world.holding.hold(Request(), world.now - 600.0)
        assert isinstance(refusal, Refusal)
        return refusal

    assert run_loop(act()).status == 503


def test_holding_for_longer_than_an_engine_may_be_silent_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"--hold-seconds is 60\.0; expected at most --response-timeout, 30"
    ):
        RouterSettings(replicas=("http://10.0.0.1:8000",), hold_seconds=60.0, response_timeout_seconds=30.0)
