"""`hypertier router` as a process: its flags, its signals, and a load that loses a replica."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from fakes_engine import (
    SSE_HEAD,
    FakeEngine,
    RawClient,
    Received,
    Stream,
    event,
    eventually,
    get,
    post,
    run_loop,
)

from hypertier.cli.router import command

ROUTER = (sys.executable, "-c", "from hypertier.cli.main import main; main()", "router")
CHAT = b"/v1/chat/completions"


@asynccontextmanager
async def router_process(
    *args: str, listen_port: int = 0
) -> AsyncIterator[tuple[subprocess.Popen[str], int]]:
    """Start one, on a free port by default; its process and the port.

    Waits in threads: the engines live in this loop.
    """
    with subprocess.Popen(
        [*ROUTER, "--listen", f"127.0.0.1:{listen_port}", *args], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = await asyncio.to_thread(process.stdout.readline)
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            assert found is not None, line
            yield process, int(found[1])
        finally:
            process.kill()


def wait_until_refused(port: int) -> None:
    """Return once nothing listens there."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionError:
            return


@pytest.mark.parametrize(
    ("args", "flag"),
    [
        pytest.param(["--strategy", "nearest", "--replica", "http://a:1"], "--strategy", id="strategy"),
        pytest.param(["--replica", "a:1"], "--replica", id="replica"),
        pytest.param([], "--replica", id="none"),
        pytest.param(["--listen", "x", "--replica", "http://a:1"], "--listen", id="listen"),
    ],
)
def test_wrong_value_ends_with_its_flag_and_no_traceback(args: list[str], flag: str) -> None:
    done = subprocess.run([*ROUTER, *args], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert flag in done.stderr
    assert "Traceback" not in done.stderr


def test_flags_of_the_pods_stay() -> None:
    text = CliRunner().invoke(command, ["--help"]).output

    for flag in (
        "--listen",
        "--strategy",
        "--replica",
        "--discover",
        "--session-key",
        "--drain-seconds",
        "--max-body-bytes",
        "--metrics-port",
        "--explain",
    ):
        assert flag in text


@pytest.mark.cli
def test_sigterm_drains_and_ends_with_0() -> None:
    async def act() -> tuple[bytes, int | None]:
        stream = Stream(["a", "b"])
        engine = await FakeEngine(stream).start()
        async with router_process("--replica", engine.url, "--drain-seconds", "30") as (process, port):
            client = await RawClient.connect(port)
            client.send(post(CHAT, b"{}"))
            await client.reader.readuntil(b"\r\n\r\n")
            os.kill(process.pid, signal.SIGTERM)
            await asyncio.to_thread(wait_until_refused, port)
            stream.go.set()
            rest = await client.ended()
            returncode = await asyncio.to_thread(process.wait)
        await engine.kill()
        return rest, returncode

    rest, returncode = run_loop(act())

    assert rest == event("a") + event("b") + b"0\r\n\r\n"
    assert returncode == 0


@pytest.mark.cli
def test_sighup_ends_no_stream_of_a_single_process() -> None:
    async def act() -> tuple[bytes, int | None]:
        stream = Stream(["a", "b"])
        engine = await FakeEngine(stream).start()
        async with router_process("--replica", engine.url) as (process, port):
            client = await RawClient.connect(port)
            client.send(post(CHAT, b"{}"))
            await client.reader.readuntil(b"\r\n\r\n")
            os.kill(process.pid, signal.SIGHUP)
            stream.go.set()
            rest = await client.reader.readuntil(b"0\r\n\r\n")
            os.kill(process.pid, signal.SIGTERM)
            returncode = await asyncio.to_thread(process.wait)
        await engine.kill()
        return rest, returncode

    rest, returncode = run_loop(act())

    assert rest == event("a") + event("b") + b"0\r\n\r\n"
    assert returncode == 0


@pytest.mark.cli
def test_killing_a_replica_under_load_fails_no_stream_that_had_not_begun() -> None:
    """50 clients stream all the time through a router process; one of three replicas dies in the middle."""

    async def act() -> tuple[int, int, set[int]]:
        begun_on_victim: set[bytes] = set()
        events = [str(number) for number in range(20)]

        async def stream(request: Received, writer: asyncio.StreamWriter) -> None:
            writer.write(SSE_HEAD)
            for text in events:
                writer.write(event(text))
                await writer.drain()
            writer.write(b"0\r\n\r\n")

        async def stream_on_victim(request: Received, writer: asyncio.StreamWriter) -> None:
            if len(victim.received) % 2:
                await asyncio.sleep(0)
            begun_on_victim.add(request.header(b"x-request-id") or b"")
            await stream(request, writer)

        victim = FakeEngine(stream_on_victim)
        engines = [victim, FakeEngine(stream), FakeEngine(stream)]
        for engine in engines:
            await engine.start()
        flags = [flag for engine in engines for flag in ("--replica", engine.url)]
        failed_before_begin, num_done, statuses = 0, 0, set()

        async with router_process(*flags, "--strategy", "roundrobin") as (_, port):

            async def client_loop(number: int) -> None:
                nonlocal failed_before_begin, num_done
                client = await RawClient.connect(port)
                for turn in range(20):
                    name = b"%d-%d" % (number, turn)
                    client.send(post(CHAT, b"{}", b"x-request-id: " + name))
                    answer = await client.answer()
                    statuses.add(answer.status)
                    if not answer.is_whole:
                        failed_before_begin += name not in begun_on_victim
                        client = await RawClient.connect(port)
                    num_done += 1

            async def kill() -> None:
                await eventually(lambda: len(victim.received) >= 100)
                await victim.kill()

            await asyncio.gather(kill(), *(client_loop(number) for number in range(50)))
            scrape = await RawClient.connect(port)
            scrape.send(get(b"/metrics"))
            assert b"hypertier_router_retries_total" in (await scrape.answer()).body
        for engine in engines[1:]:
            await engine.kill()
        return failed_before_begin, num_done, statuses

    failed_before_begin, num_done, statuses = run_loop(act())

    assert failed_before_begin == 0
    assert num_done == 1000
    assert statuses == {200}


def test_every_flag_is_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "router.md").read_text(encoding="utf-8")

    flags = {flag for parameter in command.params for flag in parameter.opts}

    assert not {flag for flag in flags if f"`{flag}`" not in page}
