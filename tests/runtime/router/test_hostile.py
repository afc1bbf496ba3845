"""Requests made to hurt: each is answered as it must be, and the next one on the connection is not harmed."""

from __future__ import annotations

import asyncio
import os
import resource
from collections import Counter

import pytest
from fakes_engine import FakeEngine, RawClient, eventually, get, post, run_loop
from fakes_router import routed

from hypertier.router.discovery.addresses import Address
from hypertier.router.replicas.health import Health, check

CHAT = b"/v1/chat/completions"
DEEP = 20_000
BOMBS = {
    "deep-lists": b'{"messages": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep-objects": b'{"messages": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "never-closed": b'{"messages": ' + b'[{"' * DEEP,
    "long-number": b'{"model": ' + b"9" * 1_000_000 + b', "messages": []}',
    "same-key-again-and-again": b"{" + b'"model": 1, ' * 50_000 + b'"messages": []}',
    "quotes": b'{"messages": "' + b'\\"model\\"' * 100_000 + b'"}',
    "unfinished-string": b'{"messages": [], "model": "' + b"x" * 1_000_000,
    "spaces": b'{"messages"' + b" " * 1_000_000 + b": []}",
    "zeros": b"\0" * 1_000_000,
}


@pytest.mark.parametrize("strategy", ["prefixaware", "session"])
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_json_bomb_is_the_engines_and_the_next_request_is_its_own(bomb: bytes, strategy: str) -> None:
    engine = FakeEngine()

    async def act() -> list[int]:
        async with routed(engine, strategy=strategy, session_key="user") as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, bomb) + post(b"/v1/completions", b'{"prompt": "next"}'))
            return [(await client.answer()).status, (await client.answer()).status]

    assert run_loop(act()) == [200, 200]
    assert [request.body for request in engine.received] == [bomb, b'{"prompt": "next"}']


def test_router_without_files_left_blames_no_replica() -> None:
    counted = Counter[tuple[str, str]]()

    async def act() -> tuple[int, bytes, Health, int, int]:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(get(b"/health"))
            await client.answer()
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            highest = max(int(name) for name in os.listdir("/proc/self/fd"))
            spare = [os.dup(0) for _ in range(highest)]  # no number below the limit is free
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(spare), hard))
            try:
                client.send(post(CHAT, b"{}"))
                refused = await client.answer()
                health = await check(Address("127.0.0.1", engine.port), 5)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for number in spare:
                    os.close(number)
            client.send(post(CHAT, b"{}"))
            served = await client.answer()
            counted.update(router.front._proxy.limits.counts)
            return refused.status, refused.body, health, len(router.replicas.healthy), served.status

    status, body, health, num_healthy, then = run_loop(act())

    assert (status, health, num_healthy, then) == (503, Health.UNKNOWN, 1, 200)
    assert b'"code": "overloaded"' in body
    assert counted["replica", "files"] == 1


HEAD_BOMBS = {
    "many-fields": b"".join(b"x-%d: 1\r\n" % number for number in range(200)),
    "long-value": b"x: " + b"y" * 100_000 + b"\r\n",
    "long-name": b"x" * 100_000 + b": 1\r\n",
    "spaces": b"x:" + b" " * 100_000 + b"\r\n",
    "same-name": b"x: 1\r\n" * 200,
}


@pytest.mark.parametrize("pieces", [1, 50], ids=["at-once", "in-pieces"])
@pytest.mark.parametrize("fields", HEAD_BOMBS.values(), ids=HEAD_BOMBS)
def test_header_bomb_is_refused_and_others_are_served(fields: bytes, pieces: int) -> None:
    bomb = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n"
    engine = FakeEngine()

    async def act() -> tuple[int, int]:
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            size = -(-len(bomb) // pieces)
            for begin in range(0, len(bomb), size):
                client.send(bomb[begin : begin + size])
                await asyncio.sleep(0)
            status = (await client.answer()).status
            other = await RawClient.connect(router.port)
            other.send(get(b"/health"))
            return status, (await other.answer()).status

    assert run_loop(act()) == (431, 200)
    assert engine.received == []


def test_head_without_end_is_held_to_its_size_on_every_connection() -> None:
    async def act() -> list[int]:
        async with routed(FakeEngine(), max_head_bytes=4096) as router:
            clients = [await RawClient.connect(router.port) for _ in range(50)]
            for _ in range(6):
                for client in clients:
                    client.send(b"GET /" + b"x" * 1000)
                await asyncio.sleep(0)
            answers = [await client.answer() for client in clients]
            for client in clients:
                client.close()
            await eventually(lambda: not router.connections)
            return [answer.status for answer in answers]

    assert set(run_loop(act())) <= {400, 431}
