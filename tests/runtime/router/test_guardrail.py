"""The service that looks at each request before an engine does."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, cast

import pytest
from fakes_engine import Answer, FakeEngine, RawClient, Received, eventually, get, json_answer, post, run_loop
from fakes_router import routed

from hypertier.errors import ConfigError
from hypertier.router.admission import Arrival, Grant
from hypertier.router.api.openai import Refusal
from hypertier.router.app import Router
from hypertier.router.guardrail import MAX_REASON, QUIET_SECONDS, Guard, read_answer
from hypertier.router.settings import RouterSettings

CHAT = b"/v1/chat/completions"
BODY = b'{"model":"m","messages":[]}'


class Says:
    """A guardrail's answer."""

    def __init__(self, told: Any, status: bytes = b"200 OK") -> None:
        self.answer = json_answer(json.dumps(told).encode(), status)

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(self.answer)


def guarded(service: FakeEngine, on_failure: str = "closed", **settings: Any) -> dict[str, Any]:
    url = f"{service.url}/check"
    return {"guardrail_url": url, "guardrail_on_failure": on_failure, **settings}


async def ask(router: Router, request: bytes) -> Answer:
    client = await RawClient.connect(router.port)
    client.send(request)
    return await client.answer()


def counted(router: Router, result: str) -> bool:
    return f'guardrail_checks_total{{result="{result}"}} 1.0' in router.metrics.text().decode()


BLOCKED = {"action": "BLOCKED", "blocked_reason": "names a customer"}


@pytest.mark.parametrize(
    ("told", "status", "on_failure", "expected", "code", "result"),
    [
        pytest.param({"action": "NONE"}, b"200 OK", "closed", 200, None, "passed", id="passes"),
        pytest.param(BLOCKED, b"200 OK", "open", 400, "content_policy_violation", "blocked", id="blocked"),
        pytest.param({}, b"500 Oh", "closed", 503, "guardrail_unavailable", "failed", id="fails closed"),
        pytest.param({}, b"500 Oh", "open", 200, None, "failed", id="fails open"),
        pytest.param(["NONE"], b"200 OK", "closed", 503, "guardrail_unavailable", "failed", id="no object"),
        pytest.param(
            {"action": "MASK"}, b"200 OK", "closed", 503, "guardrail_unavailable", "failed", id="else"
        ),
    ],
)
def test_the_service_decides_and_where_it_fails_the_operator_has(
    told: Any, status: bytes, on_failure: str, expected: int, code: str | None, result: str
) -> None:
    async def act() -> tuple[Answer, int, bool]:
        service, engine = await FakeEngine(answer=Says(told, status)).start(), FakeEngine()
        async with routed(engine, **guarded(service, on_failure)) as router:
            answer = await ask(router, post(CHAT, BODY))
            return answer, len(engine.received), counted(router, result)

    answer, num_received, was_counted = run_loop(act())

    assert (answer.status, num_received, was_counted) == (expected, int(expected == 200), True)
    if code is not None:
        assert json.loads(answer.body)["error"]["code"] == code


@pytest.mark.parametrize(
    ("answer", "on_failure", "said"),
    [
        pytest.param(
            json_answer(b"{}", b"500 Oh"), "closed", "requests are refused: answered 500", id="status"
        ),
        pytest.param(
            json_answer(b'["NONE"]'),
            "open",
            "requests pass without it: answered no object with the action NONE or BLOCKED",
            id="no-object",
        ),
        pytest.param(
            json_answer(b"secret"), "open", "requests pass without it: answered no JSON", id="no-json"
        ),
        pytest.param(b"", "closed", "requests are refused: ", id="closed"),
    ],
)
def test_a_service_that_fails_is_said_once_and_once_when_it_is_over(
    answer: bytes, on_failure: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hypertier.router")
    failing, seconds = Says({"action": "NONE"}), [100.0]

    async def act() -> str:
        service = await FakeEngine(answer=failing).start()
        async with routed(FakeEngine(), **guarded(service, on_failure)) as router:
            cast(Guard, router.front._admission)._now = lambda: seconds[0]
            good, failing.answer = failing.answer, answer
            for _ in range(3):
                await ask(router, post(CHAT, BODY))
            failing.answer = good
            for later in (QUIET_SECONDS / 2, QUIET_SECONDS, 1):
                seconds[0] += later
                await ask(router, post(CHAT, BODY))
            return f"the guardrail {service.url.removeprefix('http://')} "

    guardrail = run_loop(act())

    told = [one.getMessage() for one in caplog.records if one.getMessage().startswith("the guardrail")]
    assert len(told) == 2
    assert told[0].startswith(f"{guardrail}tells nothing, so {said}")
    assert told[1] == f"{guardrail}answers again"
    assert "secret" not in caplog.text


def test_a_service_that_takes_too_long_has_failed() -> None:
    async def act() -> int:
        service = await FakeEngine(frozen=True).start()
        settings = guarded(service, guardrail_timeout_seconds=0.05)
        async with routed(FakeEngine(), **settings) as router:
            return (await ask(router, post(CHAT, BODY))).status

    assert run_loop(act()) == 503


def test_it_is_shown_the_body_as_it_is_and_whose_it_is() -> None:
    async def act() -> Received:
        service = await FakeEngine(answer=Says({"action": "NONE"})).start()
        async with routed(FakeEngine(), admission=Desk(), **guarded(service)) as router:
            await ask(router, post(CHAT, BODY, b"x-request-id: one"))
            return service.received[0]

    seen = run_loop(act())

    assert (seen.body, seen.line) == (BODY, b"POST /check HTTP/1.1")
    told = [seen.header(name) for name in (b"x-request-id", b"x-hypertier-path", b"x-hypertier-tenant")]
    assert told == [b"one", CHAT, b"a%0D%0Ab"]


def test_what_has_no_body_is_not_shown() -> None:
    async def act() -> tuple[int, int]:
        service = await FakeEngine().start()
        async with routed(FakeEngine(), **guarded(service)) as router:
            return (await ask(router, get(b"/v1/models"))).status, len(service.received)

    assert run_loop(act()) == (200, 0)


class Desk:
    """Lets everybody in, or nobody, and counts who ended."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self.num_released = 0
        self.refusal = refusal

    def admit(self, arrival: Arrival) -> None:
        if self.refusal is not None:
            arrival.refuse(self.refusal)
        else:
            arrival.proceed(Grant("a\r\nb", released=self._released))

    def _released(self) -> None:
        self.num_released += 1


def test_it_is_not_asked_about_who_may_not_ask() -> None:
    async def act() -> tuple[int, int]:
        service, desk = await FakeEngine().start(), Desk(Refusal(401, "no key", "invalid_api_key"))
        async with routed(FakeEngine(), admission=desk, **guarded(service)) as router:
            return (await ask(router, post(CHAT, BODY))).status, len(service.received)

    assert run_loop(act()) == (401, 0)


def test_what_a_blocked_request_held_is_free_again() -> None:
    async def act() -> int:
        service, desk = await FakeEngine(answer=Says(BLOCKED)).start(), Desk()
        async with routed(FakeEngine(), admission=desk, **guarded(service)) as router:
            await ask(router, post(CHAT, BODY))
            return desk.num_released

    assert run_loop(act()) == 1


def test_a_client_that_goes_away_ends_the_question() -> None:
    async def act() -> tuple[int, int]:
        service, desk, engine = await FakeEngine(frozen=True).start(), Desk(), FakeEngine()
        settings = guarded(service, guardrail_timeout_seconds=60.0)
        async with routed(engine, admission=desk, **settings) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await eventually(lambda: service.num_connections == 1)
            client.close()
            await eventually(lambda: desk.num_released == 1)
            return desk.num_released, len(engine.received)

    assert run_loop(act()) == (1, 0)


def test_a_reason_is_no_longer_than_anybody_reads() -> None:
    refusal = read_answer(200, json.dumps({"action": "BLOCKED", "blocked_reason": "x" * 10_000}).encode())

    assert refusal is not None
    assert len(refusal.message) == MAX_REASON


@pytest.mark.parametrize(
    ("written", "named"),
    [
        pytest.param({"guardrail_url": "http://filter:9000"}, "--guardrail-on-failure", id="no decision"),
        pytest.param({"guardrail_on_failure": "open"}, "--guardrail-on-failure", id="nothing that may fail"),
        pytest.param(
            {"guardrail_url": "https://filter:9000", "guardrail_on_failure": "open"},
            "--guardrail-url",
            id="TLS",
        ),
        pytest.param(
            {"guardrail_url": "http://filter", "guardrail_on_failure": "open"},
            "--guardrail-url",
            id="no port",
        ),
    ],
)
def test_a_guardrail_that_cannot_work_is_refused(written: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        RouterSettings(replicas=("http://10.0.0.1:8000",), **written)
