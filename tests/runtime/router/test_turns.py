"""However much one client sends at once, others have their turn in between."""

from __future__ import annotations

import asyncio

import pytest
from fakes_connection import AtOnce, Transport
from fakes_engine import FakeEngine, RawClient, get, run_loop
from fakes_requests import HOST
from fakes_router import routed

from hypertier.router.http.connection import MAX_IN_A_TURN, ClientConnection
from hypertier.router.http.wire import MAX_READY, BodyBudget, RequestReader

NUM_REQUESTS = 1000
PLAIN = b"GET /%d HTTP/1.1\r\n" + HOST + b"\r\n"
PARSED = b"POST /%d HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
KINDS = pytest.mark.parametrize("kind", [PLAIN, PARSED], ids=["plain", "parsed"])


def paths(*numbers: int) -> list[bytes]:
    return [b"/%d" % number for number in range(*numbers)]


@KINDS
def test_a_client_that_sends_many_requests_at_once_leaves_others_their_turn(kind: bytes) -> None:
    async def act() -> None:
        owner, transport = AtOnce(), Transport()
        connection = ClientConnection(owner)
        connection.connection_made(transport)

        connection.data_received(b"".join(kind % number for number in range(NUM_REQUESTS)))
        at_once = list(owner.asked)
        connection.data_received(kind % NUM_REQUESTS)
        num_turns = 0
        while len(owner.asked) <= NUM_REQUESTS:
            before = len(owner.asked)
            await asyncio.sleep(0)
            num_turns += 1
            assert len(owner.asked) - before <= MAX_IN_A_TURN

        assert at_once == paths(MAX_IN_A_TURN)
        assert owner.asked == paths(NUM_REQUESTS + 1)
        assert num_turns >= NUM_REQUESTS // MAX_IN_A_TURN
        assert not transport.is_paused
        assert connection.idle
        assert (owner.budget.held_bytes, owner.refusals) == (0, [])

    run_loop(act())


@KINDS
def test_what_is_read_before_it_is_answered_is_bounded(kind: bytes) -> None:
    reader = RequestReader(max_head_bytes=1 << 16, max_body_bytes=1 << 16, budget=BodyBudget(1 << 20))
    data = b"".join(kind % number for number in range(4 * NUM_REQUESTS))
    asked = []

    while data:
        data = reader.feed(data)
        assert len(reader.ready) <= max(MAX_READY, 32 * 1024 // len(kind) + 1)
        asked += [request.path for request in reader.ready]
        reader.ready.clear()

    assert asked == paths(4 * NUM_REQUESTS)


def test_thousands_of_requests_at_once_are_all_answered() -> None:
    async def act() -> list[int]:
        async with routed(FakeEngine()) as router:
            client = await RawClient.connect(router.port)
            client.send(get(b"/health") * 5000)
            return [(await client.answer()).status for _ in range(5000)]

    assert run_loop(act()) == [200] * 5000
