"""The one step before a request goes to a replica."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes_engine import Answer, FakeEngine, RawClient, Received, eventually, get, post, run_loop
from fakes_router import routed

from hypertier.router.admission import Arrival, Grant
from hypertier.router.api.openai import Refusal
from hypertier.router.http.heads import Request

CHAT = b"/v1/chat/completions"
BODY = b'{"model": "m"}'


class Desk:
    """Keeps what arrives; a test lets it through, or does not."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.num_gone = 0
        self.num_released = 0

    def admit(self, arrival: Arrival) -> None:
        arrival.on_gone = self._gone
        self.arrivals.append(arrival)

    def _gone(self) -> None:
        self.num_gone += 1

    def released(self) -> None:
        self.num_released += 1


def test_request_waits_until_it_is_let_through() -> None:
    desk, engine = Desk(), FakeEngine()

    async def act() -> tuple[int, Answer]:
        async with routed(engine, admission=desk) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await eventually(lambda: bool(desk.arrivals))
            num_received = len(engine.received)
            desk.arrivals[0].proceed(Grant(released=desk.released))
            return num_received, await client.answer()

    num_before, answer = run_loop(act())

    assert (num_before, answer.status, desk.num_released, desk.num_gone) == (0, 200, 1, 0)


def test_what_admission_writes_reaches_the_engine_and_the_budget_is_whole() -> None:
    class Salting(Desk):
        def admit(self, arrival: Arrival) -> None:
            request = arrival.request
            request.forwarded.append(b"x-tenant: t\r\n")
            request.body = b'{"cache_salt": "s", ' + request.body[1:]
            arrival.proceed()

    engine = FakeEngine()

    async def act() -> tuple[Received, int]:
        async with routed(engine, admission=Salting()) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await client.answer()
            await eventually(lambda: router.budget.held_bytes == 0)
            return engine.received[0], router.budget.held_bytes

    received, held = run_loop(act())

    assert received.body == b'{"cache_salt": "s", "model": "m"}'
    assert received.header(b"content-length") == b"33"
    assert received.header(b"x-tenant") == b"t"
    assert held == 0


def test_refused_request_is_answered_and_the_connection_lives_on() -> None:
    class Refusing(Desk):
        def admit(self, arrival: Arrival) -> None:
            arrival.refuse(Refusal(429, "slowly", "rate_limit", retry_after_seconds=3))

    async def act() -> list[Answer]:
        async with routed(FakeEngine(), admission=Refusing()) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY) + get(b"/health"))
            return [await client.answer(), await client.answer()]

    refused, health = run_loop(act())

    assert (refused.status, refused.header(b"retry-after"), health.status) == (429, b"3", 200)


def test_client_that_leaves_while_it_waits_is_told_to_admission_and_never_sent() -> None:
    desk, engine = Desk(), FakeEngine()

    async def act() -> None:
        async with routed(engine, admission=desk) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await eventually(lambda: bool(desk.arrivals))
            client.close()
            await eventually(lambda: desk.num_gone == 1)
            desk.arrivals[0].proceed(Grant(released=desk.released))
            await eventually(lambda: not router.connections)

    run_loop(act())

    assert engine.received == []
    assert desk.num_released == 0


def test_grant_is_released_once_when_no_replica_answers() -> None:
    desk, engine = Desk(), FakeEngine(healthy=False)

    async def act() -> Answer:
        async with routed(engine, admission=desk) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await eventually(lambda: bool(desk.arrivals))
            desk.arrivals[0].proceed(Grant(released=desk.released))
            return await client.answer()

    answer = run_loop(act())

    assert (answer.status, desk.num_released) == (503, 1)


class Gate:
    """Remembers what became of arrivals."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def proceed(self, arrival: Arrival, grant: Grant | None) -> None:
        self.ends.append("proceeded")

    def refuse(self, arrival: Arrival, refusal: Refusal) -> None:
        self.ends.append(f"refused with {refusal.status}")


ENDS: dict[str, Callable[[Arrival], None]] = {
    "proceeded": Arrival.proceed,
    "refused with 429": lambda arrival: arrival.refuse(Refusal(429, "later", "rate_limit_exceeded")),
    "gone": Arrival.cancel,
    "refused with 503": Arrival.time_out,
}


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", ENDS)
def test_of_two_ends_of_an_arrival_the_first_counts(first: str, second: str) -> None:
    gate, gone = Gate(), []
    arrival = Arrival(gate, None, Request(), b"id")
    arrival.on_gone = lambda: gone.append("gone")

    ENDS[first](arrival)
    ENDS[second](arrival)

    assert gate.ends == [first] * (first != "gone")
    assert gone == ["gone"] * (first in ("gone", "refused with 503"))
