"""`hypertier router --workers` as processes: who dies is replaced, and who connects notices nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fakes_engine import FakeEngine, RawClient, Stream, event, eventually, get, post, run_loop
from fakes_workers import CHAT, ROUTER, Workers, workers_of

pytestmark = pytest.mark.cli
ACCESS = "access: {default: {requestsPerMinute: 60}, queue: {maxInFlightPerReplica: 1000}}"


def test_requests_of_all_workers_are_one_routers_to_who_operates_it() -> None:
    async def act() -> tuple[set[int], float, float, list[dict[str, Any]], dict[str, object], int]:
        engine = await FakeEngine().start()
        async with workers_of("--workers", "2", "--replica", engine.url) as router:
            for number in range(60):
                assert (await router.chat(b"x-request-id: r-%d" % number)).status == 200
            told = json.loads((await router.told("/decisions")).body)["decisions"]
            client = await RawClient.connect(router.admin_port)
            client.send(post(b"/explain", b'{"messages": []}'))
            explained = json.loads((await client.answer()).body)
            client = await RawClient.connect(router.port)
            client.send(get(b"/metrics"))
            return (
                {one["worker"] for one in told},
                await router.metric("hypertier_router_requests_total"),
                await router.metric("hypertier_router_first_byte_seconds_count"),
                told,
                explained,
                (await client.answer()).status,
            )

    workers, requests, first_bytes, told, explained, status = run_loop(act())

    assert workers == {0, 1}
    assert requests >= 60
    assert first_bytes == 60
    assert {one["request_id"] for one in told} == {f"r-{number}" for number in range(60)}
    assert [one["clock_seconds"] for one in told] == sorted(
        (one["clock_seconds"] for one in told), reverse=True
    )
    assert str(explained["replica"]).startswith("http://")
    assert status == 404  # metrics are where all are added up


def test_limit_of_a_tenant_is_that_of_all_workers_together(tmp_path: Path) -> None:
    (tmp_path / "access.yaml").write_text(ACCESS)

    async def act() -> int:
        engine = await FakeEngine().start()
        flags = ("--workers", "2", "--access", str(tmp_path / "access.yaml"), "--replica", engine.url)
        async with workers_of(*flags) as router:
            divided, num_admitted = 0, 0
            while divided < 4:  # both of them know of the other, in all likelihood
                while await router.metric("hypertier_router_peers") < 2:
                    pass
                answer = await router.chat()
                if answer.header(b"x-ratelimit-limit-requests") == b"30":
                    divided, num_admitted = divided + 1, num_admitted + (answer.status == 200)
                else:  # however many, until each has heard of the other and its next second begins
                    divided = num_admitted = 0
            answers = await asyncio.gather(*(router.chat() for _ in range(200)))
            num_admitted += sum(answer.status == 200 for answer in answers)
            while not num_admitted:  # both had spent theirs before they knew: until more comes
                num_admitted += (await router.chat()).status == 200
            return num_admitted

    assert 0 < run_loop(act()) <= 90  # 60, and one for each second that passed; 120 of two by themselves


def test_worker_that_is_killed_is_replaced_and_its_share_of_clients_is_served() -> None:
    async def act() -> tuple[set[int], list[int], list[int], float, float]:
        engine = await FakeEngine().start()
        async with workers_of("--workers", "2", "--replica", engine.url) as router:
            for _ in range(20):
                await router.chat()
            before = await router.pids()
            await router.metric("hypertier_router_requests_total")
            os.kill(before[0], signal.SIGKILL)
            statuses = {answer.status for answer in await asyncio.gather(*(router.chat() for _ in range(40)))}
            while len(after := await router.pids()) < 2:
                statuses.add((await router.chat()).status)
            restarts = await router.metric("hypertier_router_worker_restarts_total")
            return statuses, before, after, restarts, await router.metric("hypertier_router_requests_total")

    statuses, before, after, restarts, requests = run_loop(act())

    assert statuses == {200}
    assert after[0] != before[0]
    assert after[1] == before[1]
    assert restarts == 1
    assert requests >= 60


def test_reload_replaces_all_workers_and_resets_or_refuses_nobody() -> None:
    async def act() -> tuple[list[int], list[int], int, set[str], float]:
        engine = await FakeEngine(models=("m",)).start()
        done = asyncio.Event()
        num_answered, failures = 0, set()

        async def client_loop(router: Workers, requests_per_connection: int) -> None:
            nonlocal num_answered
            while not done.is_set():
                try:
                    client = await RawClient.connect(router.port)
                    for _ in range(requests_per_connection):
                        client.send(post(CHAT, b"{}"))
                        answer = await client.answer()
                        num_answered += 1
                        if answer.status != 200 or not answer.is_whole:
                            failures.add(str(answer))
                        if answer.header(b"connection") == b"close":
                            break
                    client.close()
                except (OSError, asyncio.IncompleteReadError) as error:
                    failures.add(repr(error))

        async with workers_of("--workers", "2", "--replica", engine.url) as router:
            before = await router.pids()
            clients = [asyncio.create_task(client_loop(router, most)) for most in (1, 1, 1, 3, 1000, 1000)]
            os.kill(router.process.pid, signal.SIGHUP)
            while await router.metric("hypertier_router_worker_reloads_total") < 1:
                await asyncio.sleep(0.05)
            while len((await router.health())["workers"]) > 2:
                await asyncio.sleep(0.05)
            done.set()
            await asyncio.gather(*clients)
            counted = await router.metric("hypertier_router_first_byte_seconds_count")
            return before, await router.pids(), num_answered, failures, counted

    before, after, num_answered, failures, counted = run_loop(act())

    assert failures == set()
    assert not set(before) & set(after)
    assert len(after) == 2
    assert counted == num_answered  # of workers that are no more, too


def test_sigterm_drains_all_workers_and_ends_with_0() -> None:
    async def act() -> tuple[list[bytes], int]:
        stream = Stream(["a", "b"])
        engine = await FakeEngine(stream).start()
        async with workers_of("--workers", "2", "--replica", engine.url) as router:
            clients = [await RawClient.connect(router.port) for _ in range(8)]
            for client in clients:
                client.send(post(CHAT, b"{}"))
                await client.reader.readuntil(b"\r\n\r\n")
            os.kill(router.process.pid, signal.SIGTERM)
            await asyncio.to_thread(_wait_until_refused, router.port)
            stream.go.set()
            rests = [await client.ended() for client in clients]
            return rests, await asyncio.to_thread(router.process.wait)

    rests, returncode = run_loop(act())

    assert rests == [event("a") + event("b") + b"0\r\n\r\n"] * 8
    assert returncode == 0


def test_workers_end_where_their_supervisor_is_gone() -> None:
    async def act() -> None:
        engine = await FakeEngine().start()
        async with workers_of("--workers", "2", "--replica", engine.url) as router:
            pids = await router.pids()
            os.kill(router.process.pid, signal.SIGKILL)
            await eventually(lambda: not any(map(_lives, pids)))

    run_loop(act())


def test_what_cannot_work_is_said_once_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "access.yaml").write_text("access: {queue: 7}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cases = {
            "access.queue": ["--access", str(tmp_path / "access.yaml")],
            "--listen is ": ["--listen", f"127.0.0.1:{port}"],
            "--workers is 0": ["--workers", "0"],
        }
        for named, more in cases.items():
            flags = ["--listen", "127.0.0.1:0", "--metrics-port", "0", "--replica", "http://127.0.0.1:9"]
            done = subprocess.run(
                [*ROUTER, *flags, "--workers", "4", *more],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

            assert done.returncode == 1, named
            assert done.stderr.count(named) == 1, done.stderr
            assert "Traceback" not in done.stderr


def test_second_router_does_not_get_the_port_of_a_first() -> None:
    async def act() -> tuple[int, str]:
        engine = await FakeEngine().start()
        async with workers_of("--workers", "1", "--replica", engine.url) as router:
            flags = ["--listen", f"127.0.0.1:{router.port}", "--metrics-port", "0", "--workers", "1"]
            done = await asyncio.to_thread(
                subprocess.run,
                [*ROUTER, *flags, "--replica", engine.url],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            return done.returncode, done.stderr

    returncode, problem = run_loop(act())

    assert returncode == 1
    assert "--listen is " in problem


def _wait_until_refused(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionError:
            return


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
