"""Health checks: what they call well, and what follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from fakes_engine import FakeEngine, eventually, run_loop

from hypertier.router.discovery.addresses import Address
from hypertier.router.replicas.health import MAX_TIMEOUTS, WHY, Health, HealthChecks, check
from hypertier.router.replicas.replicas import ReplicaSet


@pytest.mark.parametrize(
    ("healthy", "expected"), [(True, Health.GOOD), (False, Health.BAD)], ids=["200", "503"]
)
def test_engine_is_taken_at_its_word(healthy: bool, expected: Health) -> None:
    async def act() -> Health:
        engine = await FakeEngine(healthy=healthy).start()
        try:
            return await check(Address("127.0.0.1", engine.port), 5)
        finally:
            await engine.kill()

    assert run_loop(act()) is expected


def test_engine_that_is_not_there_is_refused() -> None:
    async def act() -> Health:
        engine = await FakeEngine().start()
        await engine.kill()
        return await check(Address("127.0.0.1", engine.port), 5)

    assert run_loop(act()) is Health.REFUSED


async def _say_nothing(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _pour(writer: asyncio.StreamWriter) -> None:
    writer.write(b"x" * 1_000_000)
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("behave", "expected"),
    [(_say_nothing, Health.TIMEOUT), (_close, Health.REFUSED), (_pour, Health.BAD)],
    ids=["silent", "closes", "pours"],
)
def test_engine_that_does_not_answer_is_not_well(
    behave: Callable[[asyncio.StreamWriter], object], expected: Health
) -> None:
    async def act() -> Health:
        tasks = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.append(asyncio.current_task())
            try:
                await behave(writer)  # type: ignore[misc]
            finally:
                writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        try:
            return await check(Address("127.0.0.1", server.sockets[0].getsockname()[1]), 0.1)
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    assert run_loop(act()) is expected


def states_after(*results: Health) -> list[str]:
    """The state of one replica after each of these checks."""

    async def act() -> list[str]:
        replicas, states, waiting = ReplicaSet(), [], list(results)
        done = asyncio.Event()

        async def answer(address: Address, timeout_seconds: float) -> Health:
            if states or len(waiting) < len(results):
                states.append(next(iter(replicas.by_url.values())).state.value)
            if not waiting:
                done.set()
                await asyncio.Event().wait()
            return waiting.pop(0)

        checks = HealthChecks(replicas, interval_seconds=0.0001, timeout_seconds=1, check=answer)
        replicas.replace([Address("a", 1)])
        await done.wait()
        await checks.stop()
        return states

    return run_loop(act())


GOOD, BAD, REFUSED = Health.GOOD, Health.BAD, Health.REFUSED
TIMEOUT, UNKNOWN = Health.TIMEOUT, Health.UNKNOWN


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        pytest.param([GOOD, BAD, GOOD], ["healthy", "ejected", "healthy"], id="sick-and-well"),
        pytest.param([BAD, GOOD], ["new", "healthy"], id="starting"),
        pytest.param([GOOD, REFUSED], ["healthy", "ejected"], id="dead"),
        pytest.param([GOOD, TIMEOUT, TIMEOUT, GOOD], ["healthy"] * 4, id="busy"),
        pytest.param([GOOD, *[UNKNOWN] * 4], ["healthy"] * 5, id="not-asked"),
        pytest.param([UNKNOWN, GOOD], ["new", "healthy"], id="not-asked-yet"),
        pytest.param(
            [GOOD, *[TIMEOUT, UNKNOWN] * (MAX_TIMEOUTS - 1), TIMEOUT],
            ["healthy"] * (2 * MAX_TIMEOUTS - 1) + ["ejected"],
            id="frozen-and-not-asked-in-between",
        ),
        pytest.param(
            [GOOD, *[TIMEOUT] * MAX_TIMEOUTS], ["healthy"] * MAX_TIMEOUTS + ["ejected"], id="frozen"
        ),
    ],
)
def test_checks_admit_and_eject(results: list[Health], expected: list[str]) -> None:
    assert states_after(*results) == expected


def test_a_replica_that_never_was_well_is_named_once_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    states_after(REFUSED, REFUSED, BAD, GOOD, REFUSED)

    told = [record.message for record in caplog.records]
    assert [line.partition(": ")[2] for line in told] == [WHY[REFUSED], WHY[BAD]]
    assert all("http://a:1 gets no request yet" in line for line in told)


def test_suspected_replica_is_checked_at_once() -> None:
    async def act() -> int:
        replicas, num_checks = ReplicaSet(), 0

        async def answer(address: Address, timeout_seconds: float) -> Health:
            nonlocal num_checks
            num_checks += 1
            return Health.GOOD

        checks = HealthChecks(replicas, interval_seconds=3600, timeout_seconds=1, check=answer)
        replicas.replace([Address("a", 1)])
        await checks.first_round()
        checks.suspect(next(iter(replicas.by_url.values())))
        await eventually(lambda: num_checks == 2)
        await checks.stop()
        return num_checks

    assert run_loop(act()) == 2
