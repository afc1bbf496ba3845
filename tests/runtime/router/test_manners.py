"""Manners under load: what crowds, overloads and long answers must not do to anybody else."""

from __future__ import annotations

import asyncio
import json

import pytest
from fakes_engine import FakeEngine, RawClient, Received, eventually, get, json_answer, post, run_loop
from fakes_router import routed

CHAT = b"/v1/chat/completions"


def test_thousand_requests_in_flight_keep_health_and_metrics_answering() -> None:
    go = asyncio.Event()

    async def hold(request: Received, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(json_answer(b"{}"))

    async def act() -> tuple[list[int], list[int], int]:
        async with routed(FakeEngine(hold), FakeEngine(hold)) as router:
            clients = [await RawClient.connect(router.port) for _ in range(1000)]
            for client in clients:
                client.send(post(CHAT, b"{}"))
            await eventually(lambda: router.replicas.in_flight == 1000)
            probe = await RawClient.connect(router.port)
            probes = []
            for path in (b"/health", b"/metrics"):
                probe.send(get(path))
                probes.append((await probe.answer()).status)
            go.set()
            statuses = [(await client.answer()).status for client in clients]
            return probes, statuses, router.replicas.in_flight

    probes, statuses, in_flight = run_loop(act())

    assert probes == [200, 200]
    assert statuses == [200] * 1000
    assert in_flight == 0


def test_every_wave_of_requests_is_served_like_the_first() -> None:
    async def act() -> list[set[int]]:
        async with routed(FakeEngine(), FakeEngine()) as router:
            clients = [await RawClient.connect(router.port) for _ in range(64)]
            waves = []
            for _ in range(5):
                for client in clients:
                    client.send(post(CHAT, b'{"model": "m", "messages": []}'))
                waves.append({(await client.answer()).status for client in clients})
            return waves

    assert run_loop(act()) == [{200}] * 5


def test_overload_that_engines_answer_with_503_closes_the_way_to_none() -> None:
    overloaded = True

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(json_answer(b"{}", b"503 Busy" if overloaded else b"200 OK"))

    async def act() -> tuple[set[int], int, int]:
        nonlocal overloaded
        async with routed(FakeEngine(answer), FakeEngine(answer), retries=0) as router:
            clients = [await RawClient.connect(router.port) for _ in range(512)]
            for client in clients:
                client.send(post(CHAT, b"{}"))
            busy = {(await client.answer()).status for client in clients}
            left = len(router.replicas.healthy)
            overloaded = False
            clients[0].send(post(CHAT, b"{}"))
            return busy, left, (await clients[0].answer()).status

    assert run_loop(act()) == ({503}, 2, 200)


def test_long_answer_that_is_not_streamed_outlives_the_timeouts_of_clients() -> None:
    """Ten minutes of ticks pass while an engine writes."""
    go = asyncio.Event()

    async def think(request: Received, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(json_answer(b'{"done": true}'))

    async def act() -> tuple[int, object]:
        async with routed(FakeEngine(think)) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            await eventually(lambda: router.replicas.in_flight == 1)
            for _ in range(600):
                router.front.sweep()
            go.set()
            answer = await client.answer()
            return answer.status, json.loads(answer.body)

    assert run_loop(act()) == (200, {"done": True})


NAMED = b"Host: llama.models.example:8443\r\n"
HEADS = {
    "as most clients write it": b"GET /v1/models HTTP/1.1\r\n" + NAMED + b"\r\n",
    "with a body": b"POST /v1/models HTTP/1.1\r\n" + NAMED + b"Content-Length: 2\r\n\r\n{}",
    "with a body in chunks": b"POST /v1/models HTTP/1.1\r\n"
    + NAMED
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "with spaces around it": b"GET /v1/models HTTP/1.1\r\nHost: \t llama.models.example:8443 \r\n\r\n",
    "in small letters": b"GET /v1/models HTTP/1.1\r\nx-a: 1\r\n" + NAMED.lower() + b"\r\n",
    "HTTP/1.0": b"GET /v1/models HTTP/1.0\r\n" + NAMED + b"\r\n",
    "in the target": b"GET http://llama.models.example:8443/v1/models HTTP/1.1\r\nHost: proxy\r\n\r\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("is_split", [False, True], ids=["at once", "in two pieces"])
def test_engine_sees_the_host_that_the_client_asked_for(head: bytes, is_split: bool) -> None:
    """However the head is written, and whichever of the router's two readers reads it."""

    async def act() -> list[bytes]:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            if is_split:
                client.send(head[:30])
                await eventually(lambda: any(not one.is_new for one in router.connections))
            client.send(head[30:] if is_split else head)
            await client.answer()
            return [value for name, value in engine.received[0].headers if name.lower() == b"host"]

    assert run_loop(act()) == [b"llama.models.example:8443"]


def refusal_by(*engines: FakeEngine) -> tuple[int, str]:
    """What a client gets that asks a router of these."""

    async def act() -> tuple[int, str]:
        async with routed(*engines) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            refused = await client.answer()
            return refused.status, json.loads(refused.body)["error"]["message"]

    return run_loop(act())


def test_engine_that_speaks_no_http_1_1_is_told_of_at_once_and_left() -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}")

    status, message = refusal_by(FakeEngine(answer))

    assert status == 502
    assert message == "no replica served the request: 1 sent what is no answer of HTTP/1.1"


def test_client_is_told_what_came_of_each_replica_that_failed() -> None:
    engines_asked = 0

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal engines_asked
        engines_asked += 1
        if engines_asked == 1:
            writer.write(json_answer(b"{}", b"503 Busy"))
        else:
            writer.close()

    status, message = refusal_by(FakeEngine(answer), FakeEngine(answer))

    assert status == 502
    assert message == "no replica served the request: 1 answered 503, 1 closed the connection"
