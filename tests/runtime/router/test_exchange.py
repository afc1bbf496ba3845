"""Requests carried to engines and answers back, over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from typing import cast

import pytest
from fakes_engine import (
    SSE_HEAD,
    Answer,
    FakeEngine,
    RawClient,
    Received,
    Stream,
    chunk,
    event,
    eventually,
    get,
    json_answer,
    post,
    run_loop,
)
from fakes_router import routed
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.exchange import END_BYTES, keep_end
from hypertier.router.http.connection import MAX_AHEAD_BYTES
from hypertier.router.replicas.replicas import Replica, State
from hypertier.router.strategies.strategy import Choice, Strategy

CHAT = b"/v1/chat/completions"
BODY = b'{"model": "m", "unknown_field": [1, 2.50], "messages": [{"role": "user", "content": "hi"}]}'


def reaches_engine(sent: bytes) -> Received:
    """What the engine got of it."""

    async def act() -> Received:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(sent)
            await client.answer()
        return engine.received[0]

    return run_loop(act())


FIELDS = (
    b"X-Custom: Kept",
    b"x-odd:  spaced  twice",
    b"Authorization: Bearer k",
    b"accept: */*",
    b"accept: a/b",
)


def test_request_reaches_the_engine_byte_for_byte() -> None:
    sent = post(CHAT + b"?a=b%20c", BODY, *FIELDS, b"X-Request-Id: its-own")

    received = reaches_engine(sent)

    assert received.head + received.body == sent


def test_nothing_is_added_to_a_request_but_an_id() -> None:
    sent = post(CHAT + b"?a=b%20c", BODY, *FIELDS)

    received = reaches_engine(sent)

    (added,) = [value for name, value in received.headers if name == b"x-request-id"]
    assert received.head.replace(b"x-request-id: %s\r\n" % added, b"") + received.body == sent


def test_nothing_is_added_to_a_chunked_request_but_its_length_and_an_id() -> None:
    framing = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    lines = b"\r\n".join((b"POST %b HTTP/1.1" % CHAT, b"Host: test", *FIELDS))

    received = reaches_engine(lines + b"\r\n" + framing)

    (added,) = [value for name, value in received.headers if name == b"x-request-id"]
    known = [tuple(part.strip() for part in line.split(b":", 1)) for line in FIELDS]
    length = (b"Content-Length", b"%d" % len(BODY))
    assert sorted(received.headers) == sorted([(b"Host", b"test"), *known, length, (b"x-request-id", added)])
    assert received.body == BODY


@pytest.mark.parametrize(
    "path", [b"/v1/models", b"/v1/completions", b"/v1/embeddings", b"/tokenize", b"/x?y"]
)
def test_every_path_is_passed_through(path: bytes) -> None:
    async def act() -> bytes:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(get(path))
            assert (await client.answer()).status == 200
        return engine.received[0].line

    line = run_loop(act())

    assert line == b"GET %s HTTP/1.1" % path


def test_answer_reaches_the_client_byte_for_byte() -> None:
    answer = b"HTTP/1.1 429 Slow Down\r\nX-Odd:  spaced \r\ncontent-length: 4\r\n\r\n\x00\xff{]"

    async def reply(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async def act() -> tuple[bytes, bytes]:
        async with routed(FakeEngine(reply)) as router:
            client = await RawClient.connect(router.port)
            client.send(get(b"/v1/models", b"x-request-id: r1"))
            got = await client.answer()
            return got.head, got.body

    head, body = run_loop(act())

    assert head == answer[:-6] + b"x-request-id: r1\r\n\r\n"
    assert body == b"\x00\xff{]"


def test_events_arrive_as_they_are_sent_and_in_order() -> None:
    async def act() -> tuple[bytes, bytes]:
        stream = Stream([str(number) for number in range(500)])
        async with routed(FakeEngine(stream)) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            head = await client.reader.readuntil(b"\r\n\r\n")
            first = await client.reader.readexactly(len(event("0")))  # before the engine may go on
            stream.go.set()
            rest = await client.reader.readuntil(b"\r\n0\r\n\r\n")
            assert b"text/event-stream" in head
            return first, rest

    first, rest = run_loop(act())

    assert first == event("0")
    assert rest == b"".join(event(str(number)) for number in range(1, 500)) + b"0\r\n\r\n"


def test_client_that_goes_away_takes_its_request_with_it() -> None:
    async def act() -> tuple[int, int]:
        engine = FakeEngine(Stream(["a", "b"]))
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await client.reader.readuntil(b"\r\n\r\n")
            client.close()
            await eventually(lambda: engine.num_disconnects == 1)
            return router.replicas.in_flight, router.budget.held_bytes

    in_flight, held_bytes = run_loop(act())

    assert (in_flight, held_bytes) == (0, 0)


def test_client_that_goes_away_before_the_first_byte_takes_its_request_with_it() -> None:
    async def never(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def act() -> int:
        engine = FakeEngine(never)
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await eventually(lambda: bool(engine.received))
            client.close()
            await eventually(lambda: engine.num_disconnects == 1)
            return router.replicas.in_flight

    in_flight = run_loop(act())

    assert in_flight == 0


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux tells")
@pytest.mark.parametrize("ends_its_side", [False, True])
def test_client_that_sent_much_ahead_and_goes_away_takes_its_request_with_it(ends_its_side: bool) -> None:
    async def never(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def act() -> tuple[int, int]:
        engine = FakeEngine(never)
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await eventually(lambda: bool(engine.received))
            client.send(post(CHAT, b"x" * 2 * MAX_AHEAD_BYTES))
            (connection,) = router.connections
            await eventually(lambda: connection._reading_paused)
            router.front.sweep()
            assert engine.num_disconnects == 0
            if ends_its_side:
                client.writer.write_eof()
            else:
                client.close()
            while engine.num_disconnects == 0:
                router.front.sweep()
                await asyncio.sleep(0.002)
            return router.replicas.in_flight, router.budget.held_bytes

    assert run_loop(act()) == (0, 0)


def test_client_that_reads_nothing_and_ends_its_side_takes_its_request_with_it() -> None:
    async def pour(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(SSE_HEAD)
        while True:
            writer.write(event("x" * 65536))
            await writer.drain()

    async def act() -> int:
        engine = FakeEngine(pour)
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.writer.transport.pause_reading()
            client.send(post(CHAT, BODY))
            await eventually(lambda: bool(router.connections))
            (connection,) = router.connections
            await eventually(lambda: connection._writing_paused)
            client.writer.write_eof()
            await eventually(lambda: not router.connections)
            return router.replicas.in_flight

    assert run_loop(act()) == 0


def test_slow_client_stops_the_engine_from_sending() -> None:
    sent = 0
    piece = b"x" * 65536

    async def pour(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (1024 * len(piece)))
        for _ in range(1024):
            writer.write(piece)
            await writer.drain()
            sent += len(piece)

    async def act() -> tuple[int, int]:
        async with routed(FakeEngine(pour)) as router:
            client = await RawClient.connect(router.port)
            client.writer.transport.pause_reading()
            client.send(get(b"/v1/models"))
            await eventually(lambda: sent > 0)
            for _ in range(10_000):  # rounds of the loop that all three share: plenty to send it all
                await asyncio.sleep(0)
            stalled_at = sent
            client.writer.transport.resume_reading()
            return stalled_at, len((await client.answer()).body)

    stalled_at, num_bytes = run_loop(act())

    assert stalled_at < 1024 * len(piece)
    assert num_bytes == 1024 * len(piece)


def test_dead_replica_is_retried_before_the_first_byte() -> None:
    async def act() -> list[int]:
        dead, alive = FakeEngine(name="dead"), FakeEngine(name="alive")
        async with routed(dead, alive, health_interval_seconds=30) as router:
            await dead.kill()
            client = await RawClient.connect(router.port)
            statuses = []
            for _ in range(10):
                client.send(post(CHAT, BODY))
                statuses.append((await client.answer()).status)
            assert b'cause="connect"' in router.metrics.text()
            return statuses

    statuses = run_loop(act())

    assert statuses == [200] * 10


async def _reset(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _unavailable(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(json_answer(b"{}", b"503 Service Unavailable"))


async def _bad_gateway(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(json_answer(b"{}", b"502 Bad Gateway"))


async def _unavailable_in_an_unusual_head(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 503 Busy\r\nKeep-Alive: timeout=5\r\ncontent-length: 2\r\n\r\n{}")


async def _late(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(json_answer(b"{}", b"504 Gateway Timeout"))


async def _nonsense(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


async def _half_a_head(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-le")
    await writer.drain()
    writer.transport.close()


async def _two_lengths(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}")


async def _head_alone(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(SSE_HEAD)
    await writer.drain()
    writer.transport.close()


Failure = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]
FAILURES: dict[str, Failure] = {
    "reset": _reset,
    "502": _bad_gateway,
    "503": _unavailable,
    "503-unusual": _unavailable_in_an_unusual_head,
    "504": _late,
    "not-http": _nonsense,
    "half-a-head": _half_a_head,
    "head-alone": _head_alone,
    "two-lengths": _two_lengths,
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_replica_that_fails_before_the_first_byte_is_replaced(failure: Failure) -> None:
    async def act() -> tuple[list[int], int]:
        bad, good = FakeEngine(failure), FakeEngine()
        async with routed(bad, good) as router:
            client = await RawClient.connect(router.port)
            statuses = []
            for _ in range(6):
                client.send(post(CHAT, BODY))
                statuses.append((await client.answer()).status)
            return statuses, len(bad.received)

    statuses, num_tried = run_loop(act())

    assert statuses == [200] * 6
    assert num_tried > 0


def test_replica_that_no_connection_reaches_costs_no_retry_of_the_budget() -> None:
    async def act() -> int:
        dead, alive = FakeEngine(name="dead"), FakeEngine(name="alive")
        async with routed(dead, alive, health_interval_seconds=30, retry_budget=0.0) as router:
            while router.front._proxy.retry_budget.take():
                pass
            await dead.kill()
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            return (await client.answer()).status

    assert run_loop(act()) == 200


def test_replica_that_began_to_answer_and_broke_off_is_not_asked_the_same_again() -> None:
    """On a connection that it had kept open, too: only where it said nothing may it have heard nothing."""
    number = 0

    async def first_well(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal number
        number += 1
        if number % 2:
            writer.write(json_answer(b"{}"))
        else:
            await _head_alone(request, writer)

    async def act() -> tuple[set[int], str]:
        async with routed(FakeEngine(first_well), FakeEngine()) as router:
            client = await RawClient.connect(router.port)
            statuses = set()
            for _ in range(4):
                client.send(post(CHAT, BODY))
                statuses.add((await client.answer()).status)
            return statuses, router.metrics.text().decode()

    statuses, text = run_loop(act())

    assert statuses == {200}
    assert 'hypertier_router_retries_total{cause="reset"} 1.0' in text
    assert 'cause="stale"' not in text


async def _half_an_answer(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    await writer.drain()
    writer.transport.close()


@pytest.mark.parametrize("failure", [_reset, _half_an_answer], ids=["before-it-answers", "inside-an-answer"])
def test_replica_that_fails_a_request_is_checked_at_once(failure: Failure) -> None:
    """Not at its time, which is long here: the test ends by its time-out where nobody asks."""

    async def act() -> None:
        sick, well = FakeEngine(failure), FakeEngine()
        async with routed(sick, well, health_interval_seconds=3600) as router:
            sick.healthy = False
            for _ in range(2):
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, BODY))
                await client.reader.read(1)
            await eventually(lambda: [one.url for one in router.replicas.healthy] == [well.url])

    run_loop(act())


def test_engine_that_was_given_up_too_often_is_out_of_the_choice() -> None:
    async def act() -> int:
        async with routed(FakeEngine(_silent), FakeEngine(_silent), health_interval_seconds=3600) as router:
            clients = [await RawClient.connect(router.port) for _ in range(10)]
            for client in clients:
                client.send(post(CHAT, BODY))
            await eventually(lambda: router.replicas.in_flight == 10)
            for connection in list(router.connections):
                assert connection.exchange is not None
                connection.exchange.time_out()
            return len(router.replicas.healthy)

    assert run_loop(act()) == 1


async def _silent(request: Received, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("status", [b"400 Bad Request", b"404 Not Found", b"429 Too Many", b"500 Oops"])
def test_engines_own_errors_are_passed_on_and_not_retried(status: bytes) -> None:
    async def reply(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(json_answer(b"{}", status))

    async def act() -> tuple[int, int]:
        engines = [FakeEngine(reply), FakeEngine(reply)]
        async with routed(*engines) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            got = await client.answer()
            assert len(router.replicas.healthy) == 2
            return got.status, sum(len(engine.received) for engine in engines)

    got, num_tries = run_loop(act())

    assert (got, num_tries) == (int(status[:3]), 1)


def test_no_more_replicas_are_tried_than_retries_allow() -> None:
    async def act() -> tuple[int, dict[str, object], int]:
        engines = [FakeEngine(_reset) for _ in range(4)]
        async with routed(*engines, retries=1) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            got = await client.answer()
            return got.status, json.loads(got.body)["error"], sum(len(engine.received) for engine in engines)

    status, error, num_tries = run_loop(act())

    assert status == 502
    assert error["code"] == "bad_gateway"
    assert num_tries == 2


def test_answer_that_breaks_off_is_not_retried_and_the_client_can_tell() -> None:
    async def begin_and_die(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(SSE_HEAD + event("first"))
        await writer.drain()
        writer.transport.close()

    async def act() -> tuple[bool, bytes, int]:
        engines = [FakeEngine(begin_and_die), FakeEngine(begin_and_die)]
        async with routed(*engines) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            got = await client.answer()
            return got.is_whole, got.body, sum(len(engine.received) for engine in engines)

    is_whole, body, num_tries = run_loop(act())

    assert not is_whole
    assert body == b"data: first\n\n"
    assert num_tries == 1


def test_connection_that_the_engine_closed_while_idle_costs_nothing() -> None:
    async def act() -> tuple[int, int]:
        engine = FakeEngine()
        async with routed(engine, retries=0, health_interval_seconds=30) as router:
            client = await RawClient.connect(router.port)
            client.send(get(b"/v1/models"))
            assert (await client.answer()).status == 200
            await engine.kill()
            await engine.start()
            client.send(get(b"/v1/models"))
            return (await client.answer()).status, len(engine.received)

    status, num_received = run_loop(act())

    assert (status, num_received) == (200, 2)


def test_connections_to_an_engine_are_reused() -> None:
    async def act() -> int:
        engine = FakeEngine()
        async with routed(engine, health_interval_seconds=30) as router:
            num_for_health = engine.num_connections
            client = await RawClient.connect(router.port)
            for _ in range(20):
                client.send(post(CHAT, BODY))
                await client.answer()
            return engine.num_connections - num_for_health

    num_connections = run_loop(act())

    assert num_connections == 1


def test_without_a_healthy_replica_the_answer_is_503_in_openais_shape() -> None:
    async def act() -> tuple[int, bytes | None, dict[str, object]]:
        async with routed(FakeEngine(healthy=False)) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            got = await client.answer()
            return got.status, got.header(b"retry-after"), json.loads(got.body)

    status, retry_after, body = run_loop(act())

    assert (status, retry_after) == (503, b"1")
    assert body == {
        "error": {
            "message": "no healthy replica",
            "type": "server_error",
            "param": None,
            "code": "no_replica",
        }
    }


@pytest.mark.parametrize("explain", [True, False], ids=["explain", "silent"])
def test_answer_names_its_replica_only_on_request(explain: bool) -> None:
    async def act() -> tuple[bytes | None, bytes]:
        engine = FakeEngine()
        async with routed(engine, explain=explain) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            got = await client.answer()
            return got.header(b"x-hypertier-replica"), b"127.0.0.1:%d" % engine.port

    named, address = run_loop(act())

    assert named == (address if explain else None)


def test_killing_a_replica_fails_no_stream_that_had_not_begun() -> None:
    """50 streams: those begun on the killed replica break off, all others are answered whole."""

    async def act() -> tuple[int, int, set[int]]:
        held, free = Stream(["a", "b"]), Stream(["a", "b"])
        victim, survivor = FakeEngine(name="victim"), FakeEngine(free, name="survivor")

        async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
            if held.begun < 10:
                await held(request, writer)
            else:
                if len(victim.received) % 2:
                    writer.write(SSE_HEAD)  # as vLLM does while the request waits its turn
                await asyncio.Event().wait()  # taken, and not begun

        victim.answer = answer
        async with routed(victim, survivor) as router:
            clients = [await RawClient.connect(router.port) for _ in range(50)]
            for client in clients:
                client.send(post(CHAT, BODY))
            await eventually(lambda: len(victim.received) == 25 and held.begun == 10)
            await victim.kill()
            free.go.set()
            answers = await asyncio.gather(*(client.answer() for client in clients))
            broken = sum(not got.is_whole for got in answers)
            return broken, len(survivor.received), {got.status for got in answers}

    broken, num_on_survivor, statuses = run_loop(act())

    assert statuses == {200}
    assert broken == 10
    assert num_on_survivor == 40


def test_silent_engine_is_given_up_with_504() -> None:
    async def never(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def act() -> tuple[int, int]:
        engine = FakeEngine(never)
        async with routed(engine, response_timeout_seconds=0.1) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            got = await client.answer()
            await eventually(lambda: engine.num_disconnects == 1)
            return got.status, router.replicas.in_flight

    status, in_flight = run_loop(act())

    assert (status, in_flight) == (504, 0)


@pytest.mark.parametrize("others", [1, 0], ids=["another-replica", "alone"])
def test_request_at_a_frozen_replica_leaves_it_for_another(others: int) -> None:
    async def act() -> tuple[bool, int]:
        frozen = FakeEngine()
        engines = [frozen, *(FakeEngine() for _ in range(others))]
        async with routed(*engines, health_interval_seconds=0.02, health_timeout_seconds=0.05) as router:
            frozen.frozen = True
            clients = [await RawClient.connect(router.port) for _ in range(4)]
            for client in clients:
                client.send(post(CHAT, BODY))
            replica = router.replicas.by_url[frozen.url]
            if others:
                statuses = {(await client.answer()).status for client in clients}
            else:
                await eventually(lambda: replica.state is State.EJECTED)
                statuses = {200} if replica.in_flight == 4 else set()
            return statuses == {200}, len(replica.waiting)

    is_well, num_waiting = run_loop(act())

    assert is_well
    assert num_waiting == (0 if others else 4)


def in_chunks(path: bytes, body: bytes) -> bytes:
    head = b"POST %s HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" % path
    return head + chunk(body) + chunk(b"")


@pytest.mark.parametrize("sent", [post, in_chunks], ids=["with a length", "in chunks"])
def test_large_body_arrives_whole_up_to_the_bound(sent: Callable[[bytes, bytes], bytes]) -> None:
    """64 MiB, unless told otherwise."""
    body = b'{"messages": "%b"}'
    body %= b"x" * (64 * 1024 * 1024 - len(body) + 2)

    async def act() -> tuple[bool, list[int], int]:
        engine = FakeEngine()
        async with routed(engine) as router:
            statuses = []
            for one in (body, body + b" "):
                client = await RawClient.connect(router.port)
                client.send(sent(CHAT, one))
                statuses.append((await client.answer()).status)
                client.close()
            return engine.received[0].body == body, statuses, len(engine.received)

    assert run_loop(act()) == (True, [200, 413], 1)


def test_answer_that_comes_before_the_body_was_read_keeps_no_other_request_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    writers: list[asyncio.StreamWriter] = []

    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """An engine that answers each head at once and reads no body."""
        writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                is_post = b"POST" in await reader.readuntil(b"\r\n\r\n")
                writer.write(json_answer(b"{}", b"413 Too Large" if is_post else b"200 OK"))
                if is_post:
                    cast(asyncio.Transport, writer.transport).pause_reading()

    async def act() -> tuple[list[int], int]:
        server = await asyncio.start_server(hasty, "127.0.0.1", 0, limit=2**26)
        port = server.sockets[0].getsockname()[1]
        try:
            async with routed(replicas=(f"http://127.0.0.1:{port}",)) as router:
                client = await RawClient.connect(router.port)
                statuses = []
                for request in (post(CHAT, b"x" * 20_000_000), get(b"/v1/models/m"), get(b"/v1/models/m")):
                    client.send(request)
                    statuses.append((await client.answer()).status)
                return statuses, router.budget.held_bytes
        finally:
            server.close()
            for writer in writers:
                writer.transport.abort()
            await asyncio.sleep(0)

    statuses, held = run_loop(act())

    assert (statuses, held) == ([413, 200, 200], 0)
    assert not caplog.records  # a full socket is nothing to tell


def test_chunked_request_arrives_with_its_length() -> None:
    async def act() -> Received:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(b"POST %s HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT)
            client.send(b'5;ext=1\r\n{"a":\r\n2\r\n1}\r\n0\r\nTrailer: x\r\n\r\n')
            assert (await client.answer()).status == 200
        return engine.received[0]

    received = run_loop(act())

    assert received.body == b'{"a":1}'
    assert received.header(b"content-length") == b"7"
    assert received.header(b"transfer-encoding") is None
    assert received.header(b"trailer") is None


def test_http_1_0_client_gets_an_answer_that_ends_with_the_connection() -> None:
    async def reply(request: Received, writer: asyncio.StreamWriter) -> None:
        assert request.line.endswith(b"HTTP/1.0")
        writer.write(b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nhello")
        await writer.drain()
        writer.transport.close()

    async def act() -> tuple[bytes, bytes]:
        async with routed(FakeEngine(reply)) as router:
            client = await RawClient.connect(router.port)
            client.send(b"GET /v1/models HTTP/1.0\r\n\r\n")
            got = await client.answer()
            return got.head, got.body

    head, body = run_loop(act())

    assert b"connection: close" in head
    assert body == b"hello"


@pytest.mark.parametrize("path", [CHAT, b"/v1/responses"])
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "broken"])
def test_http_1_0_client_gets_no_chunks_though_the_engine_sends_some(path: bytes, is_whole: bool) -> None:
    async def stream(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(SSE_HEAD.replace(b"transfer-e", b"Transfer-E") + b"6\r\nhe")
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(b"llo \r\n5;x=1\r\nworld\r\n" + (b"0\r\ntrailer: 1\r\n\r\n" if is_whole else b""))
        await writer.drain()
        writer.transport.close()

    async def act() -> tuple[bytes, bytes, bool]:
        async with routed(FakeEngine(stream)) as router:
            client = await RawClient.connect(router.port)
            client.send(post(path, BODY).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            head = await client.reader.readuntil(b"\r\n\r\n")
            body, is_reset = b"", False
            try:
                while piece := await client.reader.read(100):
                    body += piece
            except ConnectionError:
                is_reset = True
            return head, body, is_reset

    head, body, is_reset = run_loop(act())

    assert b"\r\nconnection: close\r\n" in head
    assert b"transfer-encoding" not in head.lower()
    assert b"hello world".startswith(body)
    assert is_reset is not is_whole
    assert body == b"hello world" or not is_whole


def test_head_request_is_answered_without_a_body() -> None:
    async def reply(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n")

    async def act() -> list[int]:
        async with routed(FakeEngine(reply)) as router:
            client = await RawClient.connect(router.port)
            statuses = []
            for _ in range(3):
                client.send(b"HEAD /v1/models HTTP/1.1\r\nHost: t\r\n\r\n")
                statuses.append((await client.answer(is_head=True)).status)
            return statuses

    statuses = run_loop(act())

    assert statuses == [200, 200, 200]


def test_refusal_of_a_head_request_has_no_body_that_the_next_answer_would_begin_with() -> None:
    async def act() -> list[tuple[int, bytes]]:
        engine = FakeEngine()
        async with routed(engine, health_interval_seconds=30) as router:
            await engine.kill()
            client = await RawClient.connect(router.port)
            client.send(b"HEAD /v1/models HTTP/1.1\r\nHost: t\r\n\r\n" + get(b"/health"))
            answers = [await client.answer(is_head=True), await client.answer()]
            return [(answer.status, answer.head[:12]) for answer in answers]

    assert run_loop(act()) == [(502, b"HTTP/1.1 502"), (503, b"HTTP/1.1 503")]


class _Overheard(Strategy):
    """A strategy, and the names of what it is told."""

    name = "overheard"
    index_bytes = 0

    def __init__(self, strategy: Strategy, heard: list[str]) -> None:
        self._strategy = strategy
        self._heard = heard

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        return self._strategy.choose(request, candidates, now)

    def sent(self, ticket: Hashable, request: InferenceRequest, choice: Choice, now: float) -> None:
        self._strategy.sent(ticket, request, choice, now)

    def first_token(self, ticket: Hashable, now: float) -> None:
        self._heard.append("first")

    def finished(self, ticket: Hashable, now: float) -> None:
        self._heard.append("finished")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(SSE_HEAD + event("a") + b"0\r\n\r\n", 1, id="streamed"),
        pytest.param(json_answer(b"{}"), 0, id="whole"),
        pytest.param(json_answer(b"{}", b"400 Bad Request"), 0, id="error"),
        pytest.param(SSE_HEAD + b"0\r\n\r\n", 1, id="empty-stream"),
    ],
)
def test_times_are_learned_from_streamed_answers_alone(answer: bytes, expected: int) -> None:
    async def reply(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async def act() -> tuple[int, int]:
        heard: list[str] = []
        async with routed(FakeEngine(reply), strategy="prefixaware") as router:
            router.front._proxy.picker.strategy = _Overheard(router.strategy, heard)
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await client.answer()
        return heard.count("first"), heard.count("finished")

    assert run_loop(act()) == (expected, 1)


def test_where_the_retry_budget_is_spent_the_engines_own_answer_comes() -> None:
    """With its Retry-After: in an overload that is what clients have to know."""
    overloaded = b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\n{}"

    async def act() -> Answer:
        async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
            writer.write(overloaded)

        async with routed(FakeEngine(answer), FakeEngine(answer), retry_budget=0.0) as router:
            while router.front._proxy.retry_budget.take():
                pass
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            return await client.answer()

    answer = run_loop(act())

    assert (answer.status, answer.header(b"retry-after"), answer.body) == (503, b"7", b"{}")


@given(st.lists(st.integers(0, 2 * END_BYTES) | st.integers(0, 50), max_size=60))
def test_the_end_of_an_answer_is_kept_whatever_its_pieces_and_little_more(sizes: list[int]) -> None:
    kept, whole = bytearray(), b""

    for number, size in enumerate(sizes):
        piece = bytes([number]) * size
        keep_end(kept, piece)
        whole += piece

        assert kept[-END_BYTES:] == whole[-END_BYTES:]
        assert len(kept) <= 5 * END_BYTES
