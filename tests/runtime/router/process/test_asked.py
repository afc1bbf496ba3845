"""What a router's process is asked by signals, and what it does of it."""

from __future__ import annotations

import asyncio
import signal
import subprocess

import pytest
from fakes_engine import FakeEngine, RawClient, Stream, post, run_loop
from fakes_workers import CHAT, workers_of

from hypertier.router.process.asked import AGAIN_SECONDS, Asked, ended


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_asked_once_more_it_is_to_hurry() -> None:
    clock = Clock()
    asked = Asked(clock)

    asked.to_stop()
    clock.now += AGAIN_SECONDS
    asked.to_stop()

    assert asked.hurry.is_set()


def test_signal_that_comes_twice_at_once_is_one_wish() -> None:
    """A terminal tells all that run in it, and `uv run` tells its child once more."""
    clock = Clock()
    asked = Asked(clock)

    asked.to_stop()
    clock.now += AGAIN_SECONDS / 2
    asked.to_stop()

    assert asked.stop.is_set()
    assert not asked.hurry.is_set()


def test_router_that_ends_for_a_fault_of_its_own_was_not_asked_yet() -> None:
    clock = Clock()
    asked = Asked(clock)

    asked.stop.set()
    clock.now += AGAIN_SECONDS
    asked.to_stop()

    assert not asked.hurry.is_set()


def test_start_is_given_up_where_it_is_asked_to_stop() -> None:
    async def act() -> tuple[bool, bool]:
        asked, was_cancelled = Asked(Clock()), False

        async def start() -> None:
            nonlocal was_cancelled
            asked.to_stop()
            try:
                await asyncio.Event().wait()
            finally:
                was_cancelled = True

        return await asked.unless_stopped(start()), was_cancelled

    assert run_loop(act()) == (False, True)


def test_fault_of_a_start_is_raised() -> None:
    async def start() -> None:
        raise LookupError("no such address")

    async def act() -> None:
        await Asked(Clock()).unless_stopped(start())

    with pytest.raises(LookupError):
        run_loop(act())


def test_what_is_hurried_is_given_up() -> None:
    async def act() -> bool:
        hurry = asyncio.Event()
        asyncio.get_running_loop().call_soon(hurry.set)
        return await ended(asyncio.Event().wait(), 60, hurry)

    assert run_loop(act()) is False


async def told_again(process: subprocess.Popen[str], wait: asyncio.Task[int]) -> None:
    """Ask it to stop until it does, which `wait` may have seen before the loop has."""
    while not wait.done():
        process.send_signal(signal.SIGTERM)
        await asyncio.wait({wait}, timeout=0.1)


@pytest.mark.cli
@pytest.mark.parametrize(
    "flags", [pytest.param((), id="one"), pytest.param(("--workers", "2"), id="workers")]
)
@pytest.mark.parametrize("waits", [("--drain-seconds", "600"), ("--lameduck-seconds", "600")])
def test_second_sigterm_ends_the_drain(flags: tuple[str, ...], waits: tuple[str, ...]) -> None:
    async def act() -> tuple[bytes, int]:
        engine = await FakeEngine(Stream(["a", "b"])).start()
        async with workers_of(*flags, *waits, "--replica", engine.url) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            await client.reader.readuntil(b"\r\n\r\n")
            wait = asyncio.create_task(asyncio.to_thread(router.process.wait))
            await told_again(router.process, wait)
            return await client.ended(), wait.result()

    rest, returncode = run_loop(act())

    assert not rest.endswith(b"0\r\n\r\n")
    assert returncode == 0
