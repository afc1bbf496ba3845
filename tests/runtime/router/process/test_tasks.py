"""Work beside requests: what fails unforeseen is counted, said, and begun anew."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest
from fakes_engine import FakeEngine, eventually, run_loop
from fakes_router import healthy_replicas, routed

from hypertier.router.discovery.addresses import Address
from hypertier.router.process.tasks import MAX_PAUSE_SECONDS, Tasks
from hypertier.router.replicas.health import Health, HealthChecks


def test_what_fails_unforeseen_begins_anew_after_pauses_that_double(caplog: pytest.LogCaptureFixture) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def act() -> Counter[str]:
        tasks: Tasks[str] = Tasks("reading", sleep=sleep)
        ended = asyncio.Event()

        async def work() -> None:
            if len(pauses) < 8:
                raise ZeroDivisionError
            ended.set()

        tasks.start("a", work)
        await ended.wait()
        return tasks.failures

    with caplog.at_level(logging.ERROR):
        failures = run_loop(act())

    assert failures == {"reading": 8}
    assert pauses == [0.5, 1, 2, 4, 8, 16, MAX_PAUSE_SECONDS, MAX_PAUSE_SECONDS]
    assert "reading of a failed; begins anew in 0.5 s" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_work_of_a_key_is_done_once_and_ends_when_it_is_told() -> None:
    async def act() -> tuple[int, bool, bool]:
        tasks: Tasks[str] = Tasks("reading")
        begun: list[str] = []

        async def work() -> None:
            begun.append("a")
            await asyncio.Event().wait()

        tasks.start("a", work)
        tasks.start("a", work)
        await eventually(lambda: bool(begun))
        await tasks.stop()
        return len(begun), "a" in tasks, tasks.end("a")

    assert run_loop(act()) == (1, False, False)


def test_health_check_that_fails_unforeseen_keeps_no_router_from_its_start() -> None:
    async def act() -> Counter[str]:
        replicas, _ = healthy_replicas(0)
        failures: Counter[str] = Counter()

        async def fails(address: Address, seconds: float) -> Health:
            raise ZeroDivisionError

        checks = HealthChecks(replicas, interval_seconds=1, timeout_seconds=1, check=fails, failures=failures)
        replicas.replace([Address("10.0.0.1", 8000)])
        await checks.first_round()
        await eventually(lambda: failures.total() == 1)
        await checks.stop()
        return failures

    assert run_loop(act()) == {"health checks": 1}


def test_failures_of_all_kinds_are_one_metric() -> None:
    async def act() -> bytes:
        async with routed(FakeEngine()) as router:
            router.background_failures["health checks"] += 1
            return router.metrics.text()

    assert b'hypertier_router_background_failures_total{work="health checks"} 1.0' in run_loop(act())
