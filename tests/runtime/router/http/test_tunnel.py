"""WebSockets through the router, by a client and an engine of the `websockets` library, and byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
from fakes_engine import FakeEngine, RawClient, Received, eventually, get, json_answer, post, run_loop
from fakes_router import routed
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import InvalidStatus

from hypertier.router.admission import Arrival, Grant
from hypertier.router.api.openai import Refusal
from hypertier.router.app import Router

REALTIME = b"/v1/realtime"
OPENING = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"


async def echo(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(message)


@asynccontextmanager
async def sockets(
    answer: Callable[[ServerConnection], Awaitable[None]] = echo,
) -> AsyncIterator[tuple[Router, list[ServerConnection]]]:
    """A router before an engine that speaks WebSockets, and what was opened there."""
    there: list[ServerConnection] = []

    async def remembered(socket: ServerConnection) -> None:
        there.append(socket)
        await answer(socket)

    def healthy(socket: ServerConnection, request: object) -> object:
        path = getattr(request, "path", "")
        if path.startswith("/v1/realtime"):
            return None
        return socket.respond(200 if path == "/health" else 404, "{}")

    async with serve(remembered, "127.0.0.1", 0, process_request=healthy, max_size=None) as server:  # type: ignore[arg-type]
        port = next(iter(server.sockets)).getsockname()[1]
        async with routed(replicas=(f"http://127.0.0.1:{port}",)) as router:
            yield router, there


@pytest.mark.parametrize("compression", ["deflate", None])
def test_messages_pass_both_ways_whatever_their_size(compression: str | None) -> None:
    messages = ["hi", "", "x" * 70_000, b"\x00\xff" * 500_000, "다섯"]

    async def act() -> tuple[list[str | bytes], int]:
        async with sockets() as (router, _):
            url = f"ws://127.0.0.1:{router.port}/v1/realtime?model=m"
            async with connect(url, compression=compression, max_size=None) as socket:
                answers = []
                for message in messages:
                    await socket.send(message)
                    answers.append(await socket.recv())
                during = router.replicas.in_flight
            await eventually(lambda: router.replicas.in_flight == 0)
            return answers, during

    answers, during = run_loop(act())

    assert answers == messages
    assert during == 1


def test_closing_is_the_clients_or_the_engines_and_says_why() -> None:
    async def leave(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.close(4001, "enough")

    async def act() -> tuple[int | None, str | None, int | None]:
        async with sockets(leave) as (router, there):
            socket = await connect(f"ws://127.0.0.1:{router.port}/v1/realtime")
            await socket.send("x")
            await socket.wait_closed()
            other = await connect(f"ws://127.0.0.1:{router.port}/v1/realtime")
            await other.close(4002, "me too")
            await eventually(lambda: there[1].close_code is not None)
            return socket.close_code, socket.close_reason, there[1].close_code

    assert run_loop(act()) == (4001, "enough", 4002)


def test_engine_hears_that_a_client_vanished() -> None:
    async def act() -> int:
        async with sockets() as (router, there):
            socket = await connect(f"ws://127.0.0.1:{router.port}/v1/realtime")
            socket.transport.abort()
            await eventually(lambda: bool(there) and there[0].close_code is not None)
            await eventually(lambda: router.replicas.in_flight == 0)
            return len(router.connections)

    assert run_loop(act()) == 0


@pytest.mark.parametrize("from_client", [True, False], ids=["to-engine", "to-client"])
def test_who_does_not_read_is_not_written_to_and_loses_nothing(from_client: bool) -> None:
    go = asyncio.Event()
    total = 48 * 2**20
    left = read = 0

    async def write(writer: asyncio.StreamWriter) -> None:
        nonlocal left
        left = total
        while left:
            writer.write(b"x" * 65536)
            left -= 65536
            await writer.drain()

    async def take(reader: asyncio.StreamReader) -> None:
        nonlocal read
        await go.wait()
        while read < total:
            read += len(await reader.read(2**20))

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (take(reader) if from_client else write(writer))

    async def act() -> tuple[int, int]:
        async with raw(talk) as router:
            client = await opened(router)
            transport = cast(asyncio.Transport, client.writer.transport)
            transport.pause_reading()  # a `StreamReader` takes in much by itself
            own = write(client.writer) if from_client else take(client.reader)
            other = asyncio.ensure_future(own)
            await eventually(lambda: 0 < left < total)
            before = -1
            while before != left:  # the kernel's buffers, and ours, are full
                before = left
                for _ in range(50):
                    await asyncio.sleep(0.002)
            stuck = left
            transport.resume_reading()
            go.set()
            await other
            await eventually(lambda: read == total)
            return stuck, read

    stuck, num_read = run_loop(act())

    assert stuck > total // 4
    assert num_read == total


@asynccontextmanager
async def raw(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], **settings: float
) -> AsyncIterator[Router]:
    """A router before an engine that switches and then does as it is told."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /v1/realtime"):
                writer.write(SWITCHED)
                await talk(reader, writer)
            else:
                writer.write(json_answer(b"{}"))
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with routed(replicas=(f"http://127.0.0.1:{port}",), **settings) as router:
            yield router
    finally:
        server.close()


async def opened(router: Router, *headers: bytes) -> RawClient:
    """A client that was answered with 101."""
    client = await RawClient.connect(router.port)
    client.send(get(REALTIME, *OPENING, *headers))
    assert (await client.answer()).status == 101
    return client


NOT_SWITCHED = {
    "ordinary": json_answer(b"{}"),
    "not-found": json_answer(b"{}", b"404 Not Found"),
    "forbidden": json_answer(b"", b"403 Forbidden"),
    "upgrade-required": json_answer(b"", b"426 Upgrade Required"),
}


@pytest.mark.parametrize("answer", NOT_SWITCHED.values(), ids=NOT_SWITCHED)
def test_any_other_answer_is_an_ordinary_one_and_the_last(answer: bytes) -> None:
    """What was sent behind the opening is no request: an engine would have read it as frames."""

    async def decline(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async def act() -> tuple[int, bytes | None, bytes, list[bytes]]:
        engine = FakeEngine(decline)
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(get(REALTIME, *OPENING) + get(b"/smuggled"))
            got = await client.answer()
            rest = await client.ended()
            return got.status, got.header(b"connection"), rest, [one.line for one in engine.received]

    status, connection, rest, lines = run_loop(act())

    assert status == int(answer[9:12])
    assert (connection, rest) == (b"close", b"")
    assert lines == [b"GET /v1/realtime HTTP/1.1"]


@pytest.mark.parametrize(
    "head",
    [
        get(REALTIME),
        get(REALTIME, b"Connection: Upgrade", b"Upgrade: h2c"),
        post(REALTIME, b"{}"),
    ],
    ids=["plain", "other-upgrade", "post"],
)
def test_engine_that_switches_unasked_is_not_believed(head: bytes) -> None:
    async def switch(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED + json_answer(b"{}"))

    async def act() -> int:
        async with routed(FakeEngine(switch), retries=0) as router:
            client = await RawClient.connect(router.port)
            client.send(head)
            return (await client.answer()).status

    assert run_loop(act()) == 502


WRONG = {
    "post": post(REALTIME, b"", *OPENING),
    "body": get(REALTIME, *OPENING, b"Content-Length: 2") + b"{}",
    "chunked": get(REALTIME, *OPENING, b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "no-connection": get(REALTIME, *OPENING[1:]),
    "other-token": get(REALTIME, b"Connection: keep-alive", *OPENING[1:]),
    "two-protocols": get(REALTIME, b"Connection: Upgrade", b"Upgrade: websocket, h2c"),
    "twice": get(REALTIME, *OPENING, b"Upgrade: websocket"),
    "http-1.0": get(REALTIME, *OPENING).replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "expect": get(REALTIME, *OPENING, b"Expect: 100-continue"),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_opening_that_two_parsers_may_end_differently_is_refused(data: bytes) -> None:
    async def act() -> tuple[int, int]:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(data + get(b"/smuggled"))
            return (await client.answer()).status, len(engine.received)

    assert run_loop(act()) == (400, 0)


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 400), max_size=6),
    early=st.binary(max_size=300),
    late=st.binary(max_size=300),
    said=st.binary(max_size=300),
)
def test_bytes_arrive_as_they_are_wherever_they_are_cut(
    sizes: list[int], early: bytes, late: bytes, said: bytes
) -> None:
    heard = bytearray()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        heard.extend(await reader.read())

    async def act() -> bytes:
        async with raw(talk) as router:
            client = await RawClient.connect(router.port)
            data = get(REALTIME, *OPENING) + early
            for size in sizes:
                client.send(data[:size])
                data = data[size:]
                await asyncio.sleep(0)
            client.send(data)
            await client.reader.readuntil(b"\r\n\r\n")
            client.send(late)
            client.writer.write_eof()
            return await client.ended()

    assert run_loop(act()) == said
    assert bytes(heard) == early + late


def test_who_ends_its_side_still_hears_what_the_engine_has_to_say() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.write(b"the end")
        await writer.drain()

    async def act() -> bytes:
        async with raw(talk) as router:
            client = await opened(router)
            client.writer.write_eof()
            return await client.ended()

    assert run_loop(act()) == b"the end"


def test_who_may_not_ask_opens_none_and_who_may_holds_a_place() -> None:
    class Door:
        def __init__(self) -> None:
            self.open = 0

        def admit(self, arrival: Arrival) -> None:
            if arrival.request.field(b"authorization") != b"Bearer k":
                arrival.refuse(Refusal(401, "no", "invalid_api_key"))
                return
            self.open += 1
            arrival.proceed(Grant(released=self.released))

        def released(self) -> None:
            self.open -= 1

    async def act() -> tuple[int, int, int]:
        door = Door()

        async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
            writer.write(SWITCHED)
            await asyncio.Event().wait()

        async with routed(FakeEngine(answer), admission=door) as router:
            stranger = await RawClient.connect(router.port)
            stranger.send(get(REALTIME, *OPENING))
            refused = await stranger.answer()
            client = await opened(router, b"Authorization: Bearer k")
            during = door.open
            client.close()
            await eventually(lambda: door.open == 0)
            return refused.status, during, router.replicas.in_flight

    assert run_loop(act()) == (401, 1, 0)


def test_silent_one_is_ended_and_its_replica_is_not_blamed() -> None:
    heard = bytearray()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            heard.extend(data)

    async def act() -> tuple[set[bytes], int]:
        rests = set()
        async with raw(talk, response_timeout_seconds=5.0) as router:
            for number in range(1, 7):
                client = await opened(router)
                for _ in range(4):
                    router.front.sweep()
                client.send(b"x")
                await eventually(lambda: len(heard) == number)  # noqa: B023
                for _ in range(5):
                    router.front.sweep()
                assert len(router.connections) == 1  # what the client said counts, too
                for _ in range(3):
                    router.front.sweep()
                rests.add(await client.ended())
                await eventually(lambda: not router.connections)
            return rests, len(router.replicas.healthy)

    assert run_loop(act()) == ({b""}, 1)


def test_one_that_is_open_has_the_time_of_a_drain_and_no_more() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)

    async def act() -> tuple[bytes, bytes]:
        async with raw(talk) as router:
            client = await opened(router)
            router.front.draining = True
            router.front.close_idle()
            client.send(b"still")
            during = await client.reader.readexactly(5)
            router.front.abort_all()
            return during, await client.ended()

    assert run_loop(act()) == (b"still", b"")


def test_refusal_of_the_engine_is_told_by_a_client() -> None:
    async def act() -> int:
        async with routed(FakeEngine(lambda request, writer: _say(writer, b"403 Forbidden"))) as router:
            with pytest.raises(InvalidStatus) as caught:
                await connect(f"ws://127.0.0.1:{router.port}/v1/realtime")
            return caught.value.response.status_code

    assert run_loop(act()) == 403


async def _say(writer: asyncio.StreamWriter, status: bytes) -> None:
    writer.write(json_answer(b"", status))


@pytest.mark.parametrize("name", ["b", "alias"])
def test_where_models_differ_the_query_says_which(name: str) -> None:
    async def act() -> list[int]:
        engines = [FakeEngine(models=("a",)), FakeEngine(models=("b",))]
        async with routed(*engines, model_alias=("alias=b",)) as router:
            for _ in range(3):
                client = await RawClient.connect(router.port)
                client.send(get(REALTIME + b"?x=1&model=" + name.encode(), *OPENING))
                await client.answer()
            unknown = await RawClient.connect(router.port)
            unknown.send(get(REALTIME + b"?model=c", *OPENING))
            return [*(len(engine.received) for engine in engines), (await unknown.answer()).status]

    assert run_loop(act()) == [0, 3, 404]


def test_none_is_opened_past_a_guardrail_that_would_not_see_it() -> None:
    async def act() -> tuple[int, int]:
        engine = FakeEngine()
        guard = {"guardrail_url": "http://127.0.0.1:9/check", "guardrail_on_failure": "open"}
        async with routed(engine, **guard) as router:
            client = await RawClient.connect(router.port)
            client.send(get(REALTIME, *OPENING))
            return (await client.answer()).status, len(engine.received)

    assert run_loop(act()) == (403, 0)
