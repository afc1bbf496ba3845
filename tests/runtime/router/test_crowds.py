"""Crowds that do nothing, or little: each costs a bounded piece of memory, and nobody else's time."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes_engine import FakeEngine, RawClient, eventually, post, run_loop
from fakes_router import routed

CHAT = b"/v1/chat/completions"
NUM_IDLE = 10_000
MAX_BYTES_EACH = 8 * 1024


@contextmanager
def files(count: int) -> Iterator[None]:
    """This process may open so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        pytest.skip(f"{count} open files are needed, and {hard} allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


CROWD = """
import resource, socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
sys.stdin.read()
"""


def test_ten_thousand_idle_connections_are_held_in_bounded_memory_beside_who_asks() -> None:
    async def act() -> tuple[int, int, int]:
        async with routed(FakeEngine()) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            await client.answer()
            before = rss_bytes()
            command = [sys.executable, "-c", CROWD, str(router.port), str(NUM_IDLE)]
            with subprocess.Popen(command, stdin=subprocess.PIPE) as crowd:  # whose files count by themselves
                try:
                    await eventually(lambda: len(router.connections) == NUM_IDLE + 1)
                    grown = rss_bytes() - before
                    client.send(post(CHAT, b"{}"))
                    status = (await client.answer()).status
                finally:
                    crowd.kill()
            await eventually(lambda: len(router.connections) == 1)
            return status, grown // NUM_IDLE, router.budget.held_bytes

    with files(NUM_IDLE + 500):
        status, bytes_each, held = run_loop(act())

    assert (status, held) == (200, 0)
    assert bytes_each < MAX_BYTES_EACH


def test_thousand_slow_heads_end_in_408_and_keep_nobody_waiting() -> None:
    """Slowloris: a byte of a field again and again, so that the connection is never silent."""

    async def act() -> tuple[set[int], set[int], int]:
        async with routed(FakeEngine(), read_timeout_seconds=3.0) as router:
            crowd = [await RawClient.connect(router.port) for _ in range(1000)]
            for slow in crowd:
                slow.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Slow: ")
            await eventually(lambda: len(router.connections) == len(crowd))
            client = await RawClient.connect(router.port)
            served = set()
            for _ in range(6):
                for slow in crowd:
                    slow.send(b"x")
                await asyncio.sleep(0)
                router.front.sweep()
                client.send(post(CHAT, b"{}"))
                served.add((await client.answer()).status)
            ended = {(await slow.answer()).status for slow in crowd}
            return served, ended, router.budget.held_bytes

    assert run_loop(act()) == ({200}, {408}, 0)


def test_bodies_that_trickle_hold_what_came_of_them_and_no_more() -> None:
    async def act() -> tuple[int, int, int]:
        async with routed(FakeEngine(), read_timeout_seconds=3.0) as router:
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\n"
            crowd = [await RawClient.connect(router.port) for _ in range(100)]
            for slow in crowd:
                slow.send(head + b"x" * 1000)
            await eventually(lambda: router.budget.held_bytes >= 100 * 1000)
            held = router.budget.held_bytes
            for _ in range(5):
                router.front.sweep()
            statuses = {(await slow.answer()).status for slow in crowd}
            for slow in crowd:
                slow.close()
            await eventually(lambda: not router.connections)
            return held, statuses.pop(), router.budget.held_bytes

    held, status, after = run_loop(act())

    assert held < 100 * 64 * 1024
    assert (status, after) == (408, 0)
