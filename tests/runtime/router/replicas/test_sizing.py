"""Engines are asked for the size of their caches, seldom, and none the worse for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from fakes_engine import FakeEngine, RawClient, eventually, get, run_loop
from fakes_router import healthy_replicas, routed

from hypertier.errors import SizeError
from hypertier.router.app import Router
from hypertier.router.discovery.addresses import Address
from hypertier.router.replicas import sizing
from hypertier.router.replicas.cache_sizes import CacheSizes, Reading
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.replicas.sizing import Sizing, fetch

CACHE = b'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="2048"} 1.0\n'


class Engines:
    """Counts who is asked; answers with `reading`, or fails where there is none."""

    def __init__(self, reading: Reading | None) -> None:
        self.reading = reading
        self.asked: list[str] = []

    def fetch(self, address: Address) -> Reading:
        self.asked.append(str(address))
        if self.reading is None:
            raise SizeError("failed", "test")
        return self.reading


def sized(
    engines: Engines,
    *,
    read_seconds: float = 1000.0,
    retry_seconds: float = 1000.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> tuple[ReplicaSet, Callable[[], Sizing]]:
    replicas, _ = healthy_replicas(0)

    def start() -> Sizing:
        made = Sizing(
            replicas,
            CacheSizes(),
            read_seconds=read_seconds,
            retry_seconds=retry_seconds,
            fetch=engines.fetch,
            sleep=sleep,
        )
        replicas.replace(Address(f"10.0.0.{number}", 8000) for number in (1, 2))
        for replica in list(replicas.by_url.values()):
            replicas.admit(replica)
        return made

    return replicas, start


@pytest.mark.parametrize(
    ("reading", "result"),
    [
        pytest.param(Reading(1000, 0, 0), "good", id="good"),
        pytest.param(Reading(None, 0, 0), "untold", id="untold"),
        pytest.param(None, "failed", id="failed"),
    ],
)
def test_a_replica_is_asked_once_when_it_becomes_healthy_and_the_result_is_counted(
    reading: Reading | None, result: str
) -> None:
    async def act() -> tuple[list[str], dict[str, int]]:
        engines = Engines(reading)
        _, start = sized(engines)
        made = start()
        await eventually(lambda: made.readings.total() == 2)
        await made.stop()
        return engines.asked, dict(made.readings)

    asked, readings = run_loop(act())

    assert sorted(asked) == ["10.0.0.1:8000", "10.0.0.2:8000"]
    assert readings == {result: 2}


def test_a_replica_that_was_ejected_is_asked_anew_and_unknown_in_between() -> None:
    async def act() -> tuple[int | None, int]:
        engines = Engines(Reading(1000, 0, 0))
        replicas, start = sized(engines)
        made = start()
        await eventually(lambda: made.readings["good"] == 2)
        replica = replicas.healthy[0]
        replicas.eject(replica, "test")
        between = made.sizes.tokens_of(replica)
        replicas.admit(replica)
        await eventually(lambda: made.readings["good"] == 3)
        await made.stop()
        return between, len(engines.asked)

    assert run_loop(act()) == (None, 3)


def test_what_failed_is_tried_again() -> None:
    async def act() -> int:
        engines = Engines(None)
        _, start = sized(engines, retry_seconds=0.001)
        made = start()
        await eventually(lambda: made.readings["failed"] >= 6)
        await made.stop()
        return made.readings["good"]

    assert run_loop(act()) == 0


def pauses_between_readings(reading: Reading | None) -> list[float]:
    """Of two replicas, the first after their first reading each."""

    async def act() -> list[float]:
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            await asyncio.sleep(0)

        usual = {"read_seconds": sizing.READ_SECONDS, "retry_seconds": sizing.RETRY_SECONDS}
        _, start = sized(Engines(reading), sleep=sleep, **usual)
        made = start()
        await eventually(lambda: len(pauses) >= 10)
        await made.stop()
        return pauses

    return run_loop(act())


def test_no_replica_is_asked_more_often_than_each_few_minutes() -> None:
    pauses = pauses_between_readings(Reading(1000, 0, 0))

    assert sum(pause >= 120 for pause in pauses) >= len(pauses) - 2
    assert min(pauses) >= 15  # once for each


def test_one_that_cannot_be_read_is_not_asked_all_the_time_either() -> None:
    assert min(pauses_between_readings(None)) >= 30


def test_metrics_are_read_over_http() -> None:
    async def asked() -> Reading:
        engine = FakeEngine(metrics=CACHE)
        await engine.start()
        try:
            return await asyncio.to_thread(fetch, Address("127.0.0.1", engine.port))
        finally:
            await engine.kill()

    assert asyncio.run(asked()) == Reading(2048 * 16, 0.0, 0.0, block_size=16)


def test_an_engine_that_is_gone_has_failed() -> None:
    with pytest.raises(SizeError) as caught:
        fetch(Address("127.0.0.1", 1))

    assert caught.value.cause == "failed"


async def read_of(router: Router, num_read: int) -> str:
    """The router's metrics, once it has read so many caches."""
    client = await RawClient.connect(router.port)
    while True:
        client.send(get(b"/metrics"))
        text = (await client.answer()).body.decode()
        if f'hypertier_router_cache_readings_total{{result="good"}} {num_read}.0' in text:
            return text


def test_a_router_says_what_it_read() -> None:
    async def act() -> str:
        async with routed(FakeEngine(metrics=CACHE), strategy="prefixaware", l1_tokens=100_000) as router:
            return await read_of(router, 1)

    text = run_loop(act())

    assert 'hypertier_router_replica_cache_tokens{replica="http://127.0.0.1' in text
    assert "} 100000.0" in text


@pytest.mark.parametrize(("strategy", "num_read"), [("prefixaware", 2), ("roundrobin", 1)])
def test_engines_that_prefill_are_asked_for_the_size_of_their_caches(strategy: str, num_read: int) -> None:
    """They are chosen by what they hold, whatever chooses the others."""

    async def act() -> tuple[str, str]:
        prefiller = await FakeEngine(metrics=CACHE).start()
        try:
            more = {"strategy": strategy, "prefill_replicas": (prefiller.url,)}
            async with routed(FakeEngine(metrics=CACHE), **more) as router:
                return prefiller.url, await read_of(router, num_read)
        finally:
            await prefiller.kill()

    url, text = run_loop(act())

    assert f'hypertier_router_replica_cache_tokens{{replica="{url}"}} 32768.0' in text
