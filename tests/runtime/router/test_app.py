"""The router's own answers, its manners towards clients, and its end."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress

import pytest
from fakes_engine import FakeEngine, RawClient, Received, Stream, event, eventually, get, post, run_loop
from fakes_requests import AMBIGUOUS
from fakes_router import routed

from hypertier.errors import ConfigError
from hypertier.router.app import Router
from hypertier.router.process.running import serve
from hypertier.router.settings import RouterSettings

CHAT = b"/v1/chat/completions"


@pytest.mark.parametrize(("healthy", "expected"), [(True, 200), (False, 503)], ids=["one-healthy", "none"])
def test_health_is_that_of_at_least_one_replica(healthy: bool, expected: int) -> None:
    async def act() -> int:
        async with routed(FakeEngine(healthy=healthy), FakeEngine(healthy=False)) as router:
            client = await RawClient.connect(router.port)
            client.send(get(b"/health"))
            return (await client.answer()).status

    assert run_loop(act()) == expected


def test_own_paths_answer_get_alone() -> None:
    async def act() -> list[int]:
        async with routed(FakeEngine()) as router:
            client = await RawClient.connect(router.port)
            statuses = []
            for path in (b"/health", b"/metrics"):
                client.send(post(path, b"{}"))
                statuses.append((await client.answer()).status)
                client.send(b"HEAD %s HTTP/1.1\r\nHost: t\r\n\r\n" % path)
                statuses.append((await client.answer(is_head=True)).status)
            return statuses

    assert run_loop(act()) == [405, 200, 405, 200]


def test_metrics_count_requests_by_replica_and_status() -> None:
    async def act() -> tuple[str, str]:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            for _ in range(3):
                client.send(post(CHAT, b"{}"))
                await client.answer()
            client.send(get(b"/metrics"))
            return (await client.answer()).body.decode(), engine.url

    text, url = run_loop(act())

    labels = f'{{replica="{url}",status="2xx",strategy="roundrobin"}}'
    assert f"hypertier_router_requests_total{labels} 3.0" in text
    assert f'hypertier_router_in_flight{{replica="{url}"}} 0.0' in text
    assert f'hypertier_router_replica_healthy{{replica="{url}"}} 1.0' in text


def test_no_series_of_a_replica_outlives_its_last_request() -> None:
    """However a fleet turns over: what is in flight as a replica leaves is counted until the last ended."""

    async def act() -> tuple[str, str, str]:
        stream = Stream(["a", "b"])
        engine = FakeEngine(stream)
        async with routed(engine) as router:
            clients = [await RawClient.connect(router.port) for _ in range(2)]
            for client in clients:
                client.send(post(CHAT, b"{}"))
                await client.reader.readuntil(b"\r\n\r\n")
            router.replicas.replace([])
            clients[0].close()
            await eventually(lambda: router.replicas.in_flight == 1)
            leaving = router.metrics.text().decode()
            stream.go.set()
            await eventually(lambda: not router.replicas.by_url)
            return engine.url, leaving, router.metrics.text().decode()

    url, leaving, left = run_loop(act())

    assert f'{{replica="{url}",status="client_closed",strategy="roundrobin"}} 1.0' in leaving
    assert url not in left


def test_metrics_move_to_their_own_port() -> None:
    async def act() -> list[int]:
        async with routed(FakeEngine(), metrics_port=0) as router:
            statuses = []
            for port, path in (
                (router.port, b"/metrics"),
                (router.metrics_port, b"/metrics"),
                (router.metrics_port, b"/v1/models"),
            ):
                client = await RawClient.connect(port)
                client.send(get(path))
                statuses.append((await client.answer()).status)
            return statuses

    assert run_loop(act()) == [404, 200, 404]


def test_pipelined_requests_are_answered_in_their_order() -> None:
    async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        body = request.line.split()[1]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    async def act() -> list[bytes]:
        async with routed(FakeEngine(echo), FakeEngine(echo)) as router:
            client = await RawClient.connect(router.port)
            client.send(b"".join(get(b"/%d" % number) for number in range(200)))
            return [(await client.answer()).body for _ in range(200)]

    assert run_loop(act()) == [b"/%d" % number for number in range(200)]


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_smuggled_request_reaches_no_engine(data: bytes) -> None:
    async def act() -> tuple[bytes, list[bytes]]:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(data + get(b"/smuggled"))
            answers = await client.ended()
            return answers, [request.line for request in engine.received]

    answers, lines = run_loop(act())

    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"content-length") == 1
    assert lines == []


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_request_before_a_malformed_one_is_answered(data: bytes) -> None:
    async def act() -> tuple[list[int], int]:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}") + data + get(b"/smuggled"))
            statuses = [(await client.answer()).status for _ in range(2)]
            assert await client.ended() == b""
            return statuses, len(engine.received)

    assert run_loop(act()) == ([200, 400], 1)


def test_thousand_silent_clients_keep_nobody_waiting() -> None:
    async def act() -> int:
        async with routed(FakeEngine()) as router:
            for number in range(1000):
                silent = await RawClient.connect(router.port)
                silent.send(b"POST / HTTP/1.1\r\nHost: a\r\nX: " if number % 2 else b"")
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            return (await client.answer()).status

    assert run_loop(act()) == 200


def test_refusal_of_a_large_body_reaches_a_client_that_is_still_sending() -> None:
    async def act() -> tuple[int, str]:
        async with routed(FakeEngine(), max_body_bytes=1024) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"x" * 1_000_000))
            got = await client.answer()
            return got.status, json.loads(got.body)["error"]["code"]

    assert run_loop(act()) == (413, "request_too_large")


def test_client_that_asks_is_told_to_continue() -> None:
    async def act() -> list[int]:
        async with routed(FakeEngine()) as router:
            client = await RawClient.connect(router.port)
            client.send(
                b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
                b"Expect: 100-continue\r\n\r\n"
            )
            statuses = [(await client.answer()).status]
            client.send(b"{}")
            return [*statuses, (await client.answer()).status]

    assert run_loop(act()) == [100, 200]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(b"", b"", id="silent"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\n", b"408", id="half-a-head"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", b"408", id="half-a-body"),
    ],
)
def test_client_that_takes_too_long_is_let_go(sent: bytes, expected: bytes) -> None:
    async def act() -> bytes:
        async with routed(FakeEngine(), read_timeout_seconds=0.5, idle_timeout_seconds=0.5) as router:
            client = await RawClient.connect(router.port)
            client.send(sent)
            return await client.ended()

    answer = run_loop(act())

    assert answer[9:12] == expected


def test_request_id_is_made_up_where_the_client_sends_none() -> None:
    async def act() -> tuple[bytes | None, bytes | None]:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            got = await client.answer()
            return got.header(b"x-request-id"), engine.received[0].header(b"x-request-id")

    to_client, to_engine = run_loop(act())

    assert to_client == to_engine
    assert to_client


def test_conversation_stays_on_its_replica() -> None:
    async def act() -> list[int]:
        engines = [FakeEngine(name=str(number)) for number in range(4)]
        async with routed(*engines, strategy="prefixaware") as router:
            client = await RawClient.connect(router.port)
            messages: list[dict[str, str]] = [{"role": "user", "content": "Tell me a story. " * 20}]
            for turn in range(6):
                client.send(post(CHAT, json.dumps({"model": "m", "messages": messages}).encode()))
                assert (await client.answer()).status == 200
                messages += [
                    {"role": "assistant", "content": f"Once {turn}"},
                    {"role": "user", "content": "On"},
                ]
        return sorted(len(engine.received) for engine in engines)

    assert run_loop(act()) == [0, 0, 0, 6]


def test_drain_finishes_what_was_begun_and_takes_nothing_new() -> None:
    async def act() -> tuple[bool, bytes, bool]:
        stream = Stream(["a", "b", "c"])
        async with routed(FakeEngine(stream)) as router:
            port = router.port
            idle = await RawClient.connect(port)
            idle.send(get(b"/health"))
            await idle.answer()
            client = await RawClient.connect(port)
            client.send(post(CHAT, b"{}"))
            await client.reader.readuntil(b"\r\n\r\n")
            draining = asyncio.create_task(router.drain())
            assert await idle.ended() == b""
            refused = False
            try:
                await RawClient.connect(port)
            except OSError:
                refused = True
            stream.go.set()
            rest = await client.ended()
            return await draining, rest, refused

    in_time, rest, refused = run_loop(act())

    assert in_time
    assert rest == b"".join(event(text) for text in "abc") + b"0\r\n\r\n"
    assert refused


def test_drain_answers_who_connected_before_it() -> None:
    """One whose request is on its way, and one that the router has not even taken from the kernel."""

    async def act() -> tuple[bool, list[int], bytes]:
        async with routed(FakeEngine()) as router:
            taken = await RawClient.connect(router.port)
            await eventually(lambda: len(router.front.connections) == 1)
            with socket.create_connection(("127.0.0.1", router.port)) as waiting:
                draining = asyncio.create_task(router.drain())
                await eventually(lambda: len(router.front.connections) == 2)
                waiting.sendall(get(b"/v1/models"))
                taken.send(get(b"/v1/models"))
                first = await taken.answer()
                second = await asyncio.to_thread(waiting.recv, 12)
                return await draining, [first.status], second

    in_time, statuses, raw = run_loop(act())

    assert in_time
    assert statuses == [200]
    assert raw == b"HTTP/1.1 200"


def test_router_of_which_a_part_failed_ends_and_says_why() -> None:
    """It drains first: who is served is not to blame."""

    async def failing() -> None:
        raise RuntimeError("no more news of keys")

    async def act() -> None:
        engine = await FakeEngine().start()
        settings = RouterSettings(listen="127.0.0.1:0", replicas=(engine.url,))
        await serve(settings, started=lambda router: router.keep(failing()))

    with pytest.raises(RuntimeError, match="no more news"):
        run_loop(act())


def test_drain_ends_in_time_whatever_a_stream_does() -> None:
    async def act() -> bool:
        engine = FakeEngine(Stream(["a", "b"]))
        async with routed(engine, drain_seconds=0.1) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            await client.reader.readuntil(b"\r\n\r\n")
            return await router.drain()

    assert run_loop(act()) is False


def test_health_says_no_in_the_lame_duck_time() -> None:
    async def act() -> int:
        async with routed(FakeEngine(), lameduck_seconds=30) as router:
            draining = asyncio.create_task(router.drain())
            await eventually(lambda: router.front.draining)
            client = await RawClient.connect(router.port)
            client.send(get(b"/health"))
            status = (await client.answer()).status
            draining.cancel()
            with suppress(asyncio.CancelledError):
                await draining
            return status

    assert run_loop(act()) == 503


@pytest.mark.parametrize("setting", ["--listen", "--metrics-port"])
def test_address_in_use_names_its_flag(setting: str) -> None:
    async def act() -> None:
        async with routed(FakeEngine()) as other:
            taken = other.port
            settings = (
                RouterSettings(listen=f"127.0.0.1:{taken}", replicas=("http://127.0.0.1:1",))
                if setting == "--listen"
                else RouterSettings(
                    listen="127.0.0.1:0", metrics_port=taken, replicas=("http://127.0.0.1:1",)
                )
            )
            router = Router(settings)
            try:
                await router.start()
            finally:
                await router.stop()

    with pytest.raises(ConfigError, match="free") as caught:
        run_loop(act())

    assert caught.value.setting == setting


def test_replicas_are_found_by_name() -> None:
    async def act() -> tuple[int, int]:
        engine = await FakeEngine().start()
        found_by = {"replicas": (), "discover": f"dns://127.0.0.1:{engine.port}"}
        async with routed(**found_by) as router:
            client = await RawClient.connect(router.port)
            client.send(get(b"/v1/models"))
            status = (await client.answer()).status
        await engine.kill()
        return status, len(engine.received)

    assert run_loop(act()) == (200, 1)


def test_replica_that_comes_back_is_picked_again() -> None:
    async def act() -> int:
        one, other = FakeEngine(), FakeEngine()
        async with routed(one, other, health_interval_seconds=0.05) as router:
            await one.kill()
            await eventually(lambda: len(router.replicas.healthy) == 1)
            await one.start()
            await eventually(lambda: len(router.replicas.healthy) == 2)
            client = await RawClient.connect(router.port)
            for _ in range(4):
                client.send(get(b"/v1/models"))
                await client.answer()
            return len(one.received)

    assert run_loop(act()) == 2


def test_nothing_is_left_of_many_requests_that_ended_every_way() -> None:
    """Counters of requests in flight, of bodies held and of pending work all return to zero."""

    async def moody(request: Received, writer: asyncio.StreamWriter) -> None:
        number = int(request.line.split()[1][1:])
        if number % 4 == 0:
            writer.transport.abort()
        elif number % 4 == 1:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
            await writer.drain()
            writer.transport.close()
        elif number % 4 == 2:
            await asyncio.Event().wait()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    async def act() -> tuple[int, int, int, int]:
        engines = [FakeEngine(moody), FakeEngine(moody)]
        async with routed(*engines, strategy="prefixaware", health_interval_seconds=0.05) as router:

            async def one(number: int) -> None:
                client = await RawClient.connect(router.port)
                client.send(post(b"/%d" % number, b"x" * 1000))
                if number % 4 == 2:
                    await eventually(lambda: bool(router.replicas.in_flight))
                    client.close()
                    return
                with suppress(asyncio.IncompleteReadError, ConnectionError):
                    await client.answer()
                client.close()

            await asyncio.gather(*(one(number) for number in range(200)))
            await eventually(lambda: not router.connections)
            pending = sum(replica.pending_bytes for replica in router.replicas.by_url.values())
            in_flight = sum(replica.in_flight for replica in router.replicas.by_url.values())
            return router.replicas.in_flight, in_flight, pending, router.budget.held_bytes

    assert run_loop(act()) == (0, 0, 0, 0)
