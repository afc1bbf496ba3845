"""Large bodies: how often they lie in memory at once on their way, whatever becomes of them there."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import pytest
from fakes_engine import RawClient, eventually, json_answer, post, run_loop
from fakes_router import routed

from hypertier.router.access.salt import member, splice
from hypertier.router.admission import Arrival, Grant

CHAT = b"/v1/chat/completions"
SIZE = 12 * 2**20
BODIES = {
    "json": b'{"model": "m", "messages": [{"role": "user", "content": "' + b"x" * SIZE + b'"}]}',
    "binary": b"\xff\x00" * (SIZE // 2),
}


async def peak_in_bodies(body: bytes, **settings: Any) -> float:
    """The most that this process held more than before while a body passed, over its length.

    The engine takes it in pieces and keeps none; what the client sends was there before.
    """
    taken = 0

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        head = await reader.readuntil(b"\r\n\r\n")
        while head.startswith(b"POST") and taken < len(body):
            taken += len(await reader.read(65536))
        writer.write(json_answer(b"{}"))
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with routed(replicas=(f"http://127.0.0.1:{port}",), **settings) as router:
            client = await RawClient.connect(router.port)
            head = post(CHAT, body)[: -len(body)]
            tracemalloc.start()
            try:
                client.send(head)
                for begin in range(0, len(body), 65536):
                    client.send(body[begin : begin + 65536])
                    await client.writer.drain()
                assert (await client.answer()).status == 200
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            await eventually(lambda: router.budget.held_bytes == 0)
    finally:
        server.close()
    assert taken >= len(body)
    return peak / len(body)


@pytest.mark.parametrize("strategy", ["prefixaware", "roundrobin"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_body_of_many_megabytes_is_there_twice_at_most(body: bytes, strategy: str) -> None:
    """As it is put together of its parts, and once after that: no hashing, search or sending copies it."""
    assert run_loop(peak_in_bodies(body, strategy=strategy)) < 2.2


def test_alias_that_is_written_costs_no_more_at_once() -> None:
    """The body with the client's name goes before the parts of the next one come."""
    assert run_loop(peak_in_bodies(BODIES["json"], model_alias=("m=another",))) < 2.2


class Salting:
    """Writes a tenant's salt as the gate does."""

    def admit(self, arrival: Arrival) -> None:
        body = splice(arrival.request.body, member(b"salt"))
        assert body is not None
        arrival.request.body = body
        arrival.proceed(Grant())


def test_salt_that_is_written_costs_no_more_at_once() -> None:
    assert run_loop(peak_in_bodies(BODIES["json"], admission=Salting())) < 2.2
