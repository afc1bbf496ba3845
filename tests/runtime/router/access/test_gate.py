"""Requests of tenants through a whole router, in front of fake engines."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from fakes_access import ACME, CHAT, ZETA, AccessFolder, bearer, salt_of
from fakes_engine import (
    SSE_HEAD,
    Answer,
    FakeEngine,
    RawClient,
    Received,
    Stream,
    event,
    eventually,
    get,
    json_answer,
    post,
    run_loop,
)
from fakes_jwt import AUDIENCE, ISSUER, Issuer
from fakes_router import routed

from hypertier.router.access import keys
from hypertier.router.admission import Arrival
from hypertier.router.app import Router
from hypertier.router.exchange import Exchange
from hypertier.router.routes.routes import Routes

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
QUEUE = "access: {queue: {maxInFlightPerReplica: 1, size: 2, timeout: 5s}}\n"


async def ask(router: Router, *headers: bytes, path: bytes = CHAT, body: bytes = BODY) -> Answer:
    client = await RawClient.connect(router.port)
    client.send(post(path, body, *headers))
    return await client.answer()


async def in_line(router: Router, stream: Stream, num: int) -> list[RawClient]:
    """So many clients, one after the other: the first one is being answered, the others wait, two at most."""
    assert router._door is not None
    gate = router._door.gate
    begun = stream.begun + 1
    clients = [await RawClient.connect(router.port) for _ in range(num)]
    for number, client in enumerate(clients):
        client.send(post(CHAT, BODY, bearer(ACME)))
        await eventually(lambda n=number: gate.num_waiting == min(n, 2) and stream.begun == begun)
    return clients


async def metrics(router: Router) -> str:
    client = await RawClient.connect(router.metrics_port)
    client.send(get(b"/metrics"))
    return (await client.answer()).body.decode()


@pytest.mark.parametrize("method", [b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"])
@pytest.mark.parametrize(
    "path",
    [
        CHAT,
        b"/v1/models",
        b"/metrics",
        b"/",
        b"/unknown",
        b"/health/",
        b"/HEALTH",
        b"//health",
        b"/v1/../health",
    ],
)
def test_every_path_and_method_needs_a_key(tmp_path: Path, method: bytes, path: bytes) -> None:
    engine = FakeEngine()

    async def act() -> Answer:
        async with routed(engine, **AccessFolder(tmp_path).settings) as router:
            client = await RawClient.connect(router.port)
            client.send(b"%s %s HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n" % (method, path))
            return await client.answer(is_head=method == b"HEAD")

    answer = run_loop(act())

    assert answer.status == 401
    assert answer.header(b"www-authenticate") == b"Bearer"
    assert engine.received == []
    if method != b"HEAD":
        error = json.loads(answer.body)["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")


def test_health_needs_none(tmp_path: Path) -> None:
    async def act() -> int:
        async with routed(FakeEngine(), **AccessFolder(tmp_path).settings) as router:
            client = await RawClient.connect(router.port)
            client.send(get(b"/health"))
            return (await client.answer()).status

    assert run_loop(act()) == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param([bearer(ACME)], 200, id="bearer"),
        pytest.param([b"authorization: bearer  " + ACME.encode()], 200, id="as-others-spell-it"),
        pytest.param([b"x-api-key: " + ACME.encode()], 200, id="anthropic"),
        pytest.param([bearer("sk-ht-nobody")], 401, id="unknown"),
        pytest.param([b"Authorization: Basic " + ACME.encode()], 401, id="basic"),
        pytest.param([b"Authorization: " + ACME.encode()], 401, id="no-scheme"),
        pytest.param([b"Authorization:"], 401, id="empty"),
        pytest.param([bearer("x"), b"x-api-key: " + ACME.encode()], 401, id="bearer-goes-first"),
        pytest.param([bearer(ACME), bearer(ZETA)], 401, id="twice"),
        pytest.param([b"x-api-key: " + ACME.encode(), b"X-Api-Key: x"], 401, id="twice-anthropic"),
    ],
)
def test_key_is_taken_from_either_header_once(tmp_path: Path, headers: list[bytes], status: int) -> None:
    async def act() -> Answer:
        async with routed(FakeEngine(), **AccessFolder(tmp_path).settings) as router:
            return await ask(router, *headers)

    assert run_loop(act()).status == status


def test_engine_gets_the_request_with_the_tenants_salt_and_without_the_key(tmp_path: Path) -> None:
    engine = FakeEngine()
    own = b'{"cache\\u005fsalt": "acme", "model": "m"}'

    async def act() -> int:
        async with routed(engine, **AccessFolder(tmp_path).settings) as router:
            await ask(router, bearer(ACME), b"x-custom: 1", b"X-API-Key: other")
            await ask(router, bearer(ZETA), body=own)
            await eventually(lambda: router.budget.held_bytes == 0)
            return router.budget.held_bytes

    assert run_loop(act()) == 0

    first, second = engine.received
    assert first.body == BODY[:-1] + b',"cache_salt":"%s"}' % salt_of("acme").encode()
    assert first.header(b"content-length") == b"%d" % len(first.body)
    assert {name.lower() for name, _ in first.headers} == {
        b"host",
        b"content-length",
        b"x-custom",
        b"x-request-id",
    }
    assert json.loads(second.body) == {"model": "m", "cache_salt": salt_of("zeta")}


def test_long_body_in_many_pieces_gets_the_salt_too(tmp_path: Path) -> None:
    engine = FakeEngine()
    body = json.dumps({"model": "m", "prompt": "x" * 3_000_000}).encode()

    async def act() -> None:
        async with routed(engine, **AccessFolder(tmp_path).settings) as router:
            await ask(router, bearer(ACME), path=b"/v1/completions", body=body)

    run_loop(act())

    assert engine.received[0].body == body[:-1] + b',"cache_salt":"%s"}' % salt_of("acme").encode()


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        pytest.param(b"[]", [], 400, id="list"),
        pytest.param('{"a":1}'.encode("utf-16"), [], 400, id="utf-16"),
        pytest.param(b"{}", [b"Content-Encoding: gzip"], 415, id="encoded"),
        pytest.param(b"--x\r\n", [b"Content-Type: multipart/form-data; boundary=x"], 200, id="audio"),
        pytest.param(b"--x\r\n", [b"Content-Type: multipart/form-datax"], 400, id="like-audio"),
        pytest.param(
            b"--x\r\n",
            [b"Content-Type: application/json", b"Content-Type: multipart/form-data"],
            400,
            id="two-types",
        ),
    ],
)
def test_body_without_a_place_for_the_salt_never_reaches_an_engine(
    tmp_path: Path, body: bytes, headers: list[bytes], status: int
) -> None:
    engine = FakeEngine()

    async def act() -> Answer:
        async with routed(engine, **AccessFolder(tmp_path).settings) as router:
            return await ask(router, bearer(ACME), *headers, body=body)

    assert run_loop(act()).status == status
    assert len(engine.received) == (status == 200)


@pytest.mark.parametrize(
    "path",
    [
        b"/reset_prefix_cache",
        b"/sleep",
        b"/v1/load_lora_adapter",
        b"/v1/load%5Flora_adapter",
        b"/v1/load_lora_adapter/",
        b"/v1/./load_lora_adapter",
        b"/v1/%2e/load_lora_adapter",
        b"/v1/../sleep",
        b"/v1/..",
        b"/v1/%2e%2e?x",
        b"/%6detrics",
        b"/m%65trics?x",
        b"/%68ealth",
    ],
)
def test_tenants_do_not_operate_engines(tmp_path: Path, path: bytes) -> None:
    engine = FakeEngine()

    async def act() -> Answer:
        async with routed(engine, **AccessFolder(tmp_path).settings) as router:
            return await ask(router, bearer(ACME), path=path)

    assert run_loop(act()).status == 404
    assert engine.received == []


@pytest.mark.parametrize("space", [b"", b" \r\n\t"])
def test_object_that_is_said_to_be_a_form_gets_its_salt(tmp_path: Path, space: bytes) -> None:
    engine = FakeEngine()
    form = b"Content-Type: multipart/form-data; boundary=b"

    async def act() -> None:
        async with routed(engine, **AccessFolder(tmp_path).settings) as router:
            await ask(router, bearer(ACME), form, body=space + b'{"prompt": "x"}')
            await ask(router, bearer(ACME), form, body=b"--b\r\n\r\n{}\r\n--b--\r\n")

    run_loop(act())

    salted, unsalted = (request.body for request in engine.received)
    assert json.loads(salted)["cache_salt"] == salt_of("acme")
    assert unsalted == b"--b\r\n\r\n{}\r\n--b--\r\n"


@pytest.mark.parametrize("path", [b"/v1/load_lora_adapter#x", b"/v1/unload_lora_adapter#?x", b"/sleep#/v1/x"])
def test_fragment_that_engines_cut_off_hides_no_path(tmp_path: Path, path: bytes) -> None:
    engine = FakeEngine()

    async def act() -> Answer:
        async with routed(engine, **AccessFolder(tmp_path).settings) as router:
            return await ask(router, bearer(ACME), path=path)

    assert run_loop(act()).status == 400
    assert engine.received == []


def test_keys_change_while_the_router_runs(tmp_path: Path) -> None:
    folder = AccessFolder(tmp_path)

    async def act() -> list[int]:
        async with routed(FakeEngine(), **folder.settings) as router:
            assert router._door is not None
            statuses = []
            for lines in (
                [keys.line(ACME, "acme", None), keys.line(ZETA, "acme", None)],  # both, while clients change
                [keys.line(ZETA, "acme", None)],
                ["no line of this file"],
            ):
                folder.write_keys(*lines)
                router._door.watch.step()
                statuses += [(await ask(router, bearer(key))).status for key in (ACME, ZETA)]
            text = await metrics(router)
            assert 'hypertier_router_access_reloads_total{file="access",outcome="failed"} 1.0' in text
            return statuses

    assert run_loop(act()) == [200, 200, 401, 200, 401, 200]


def test_limits_are_told_and_kept(tmp_path: Path) -> None:
    folder = AccessFolder(
        tmp_path, "access: {tenants: [{name: acme, requestsPerMinute: 2, tokensPerMinute: 1000}]}\n"
    )

    async def act() -> tuple[list[Answer], Answer, str]:
        async with routed(FakeEngine(), **folder.settings) as router:
            answers = [await ask(router, bearer(ACME)) for _ in range(3)]
            return answers, await ask(router, bearer(ZETA)), await metrics(router)

    answers, other, text = run_loop(act())

    assert [answer.status for answer in answers] == [200, 200, 429]
    assert [answer.header(b"x-ratelimit-remaining-requests") for answer in answers] == [b"1", b"0", b"0"]
    assert answers[0].header(b"x-ratelimit-limit-tokens") == b"1000"
    assert answers[2].header(b"retry-after") == b"30"
    error = json.loads(answers[2].body)["error"]
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert other.status == 200
    assert other.header(b"x-ratelimit-limit-requests") is None
    assert 'hypertier_router_tenant_requests_total{outcome="requests",tenant="acme"} 1.0' in text
    assert 'hypertier_router_tenant_requests_total{outcome="admitted",tenant="zeta"} 1.0' in text


@pytest.mark.parametrize("streamed", [False, True])
def test_tokens_are_corrected_by_what_the_answer_tells(tmp_path: Path, streamed: bool) -> None:
    usage = b'{"usage": {"prompt_tokens": 1, "total_tokens": 900, "completion_tokens": 899}}'

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        whole = SSE_HEAD + event("{}") + event(usage.decode()) + event("[DONE]") + b"0\r\n\r\n"
        writer.write(whole if streamed else json_answer(usage))

    folder = AccessFolder(tmp_path, "access: {default: {tokensPerMinute: 1000}}\n")

    async def act() -> tuple[list[int], str]:
        async with routed(FakeEngine(answer), **folder.settings) as router:
            statuses = [(await ask(router, bearer(ACME))).status for _ in range(3)]
            return statuses, await metrics(router)

    statuses, text = run_loop(act())

    assert statuses == [200, 200, 429]
    assert 'hypertier_router_tenant_tokens_total{tenant="acme"} 1800.0' in text


def test_requests_at_once_end_when_their_answers_or_clients_do(tmp_path: Path) -> None:
    folder = AccessFolder(tmp_path, "access: {default: {concurrentRequests: 1}}\n")
    stream = Stream(["a", "b"])

    async def act() -> list[int]:
        async with routed(FakeEngine(stream), **folder.settings) as router:
            first = await RawClient.connect(router.port)
            first.send(post(CHAT, BODY, bearer(ACME)))
            await first.reader.readuntil(b"\r\n\r\n")
            statuses = [(await ask(router, bearer(ACME))).status]
            first.close()
            gate = router._door.gate if router._door is not None else None
            await eventually(lambda: gate is not None and not any(t.limits.in_flight for t in gate.tenants))
            stream.go.set()
            return [*statuses, (await ask(router, bearer(ACME))).status]

    assert run_loop(act()) == [429, 200]


def test_requests_wait_for_engines_and_tenants_take_turns(tmp_path: Path) -> None:
    folder = AccessFolder(tmp_path, QUEUE)
    stream = Stream(["a"])
    engine = FakeEngine(stream)

    async def act() -> tuple[list[Answer], str]:
        async with routed(engine, **folder.settings) as router:
            assert router._door is not None
            gate = router._door.gate
            clients = []
            for number, key in enumerate(
                [ACME, ACME, ACME, ZETA]
            ):  # the third of acme's makes room for zeta's
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, b'{"n": %d}' % number, bearer(key)))
                clients.append(client)
                await eventually(lambda n=number: gate.num_waiting == min(n, 2) and stream.begun == 1)
            displaced = await clients[2].answer()
            stream.go.set()
            answers = [await clients[number].answer() for number in (0, 1, 3)]
            return [displaced, *answers], await metrics(router)

    answers, text = run_loop(act())

    assert [answer.status for answer in answers] == [429, 200, 200, 200]
    assert json.loads(answers[0].body)["error"]["code"] == "queue_full"
    assert [json.loads(request.body)["n"] for request in engine.received] == [0, 1, 3]
    assert 'hypertier_router_queue_seconds_count{pool="(unlisted)"} 2.0' in text
    assert 'hypertier_router_tenant_queued{tenant="acme"} 0.0' in text


@pytest.mark.parametrize("how", ["gone", "late", "displaced", "no-object"])
def test_what_never_reached_an_engine_took_no_tokens(tmp_path: Path, how: str) -> None:
    limits = "default: {requestsPerMinute: 100, tokensPerMinute: 1000}"
    policy = f"access: {{{limits}, queue: {{maxInFlightPerReplica: 1, size: 1, timeout: 5s}}}}\n"
    folder = AccessFolder(tmp_path, policy)
    stream = Stream(["a"])
    large = b'{"max_tokens": 400, "prompt": "a"}'

    async def act() -> tuple[float, float]:
        async with routed(FakeEngine(stream), **folder.settings) as router:
            assert router._door is not None
            gate = router._door.gate
            now = gate._clock()
            gate._clock = lambda: now
            clients = [await RawClient.connect(router.port) for _ in range(3)]
            clients[0].send(post(CHAT, BODY, bearer(ZETA)))
            await eventually(lambda: stream.begun == 1)
            clients[1].send(post(CHAT, b"[1]" if how == "no-object" else large, bearer(ACME)))
            if how == "no-object":
                await clients[1].answer()
            else:
                await eventually(lambda: gate.num_waiting == 1)
            if how == "gone":
                clients[1].close()
            elif how == "late":
                gate._clock = lambda: now + 6
                gate.tick(1)
                gate._clock = lambda: now
            elif how == "displaced":
                clients[2].send(post(CHAT, large, bearer(ACME)))
                await clients[2].answer()
                clients[1].close()
            await eventually(lambda: gate.num_waiting == 0)
            tenant = gate.tenants.get("acme", now)
            assert tenant.limits.requests is not None
            assert tenant.limits.tokens is not None
            stream.go.set()
            return tenant.limits.requests.level(now), tenant.limits.tokens.level(now)

    assert run_loop(act()) == (98 if how == "displaced" else 99, 1000)


def test_client_that_leaves_while_it_waits_leaves_its_place(tmp_path: Path) -> None:
    folder = AccessFolder(tmp_path, QUEUE)
    stream = Stream(["a"])
    engine = FakeEngine(stream)

    async def act() -> int:
        async with routed(engine, **folder.settings) as router:
            assert router._door is not None
            gate = router._door.gate
            clients = await in_line(router, stream, 2)
            clients[1].close()
            await eventually(lambda: gate.num_waiting == 0)
            stream.go.set()
            await clients[0].answer()
            await eventually(lambda: not any(tenant.limits.in_flight for tenant in gate.tenants))
            return len(engine.received)

    assert run_loop(act()) == 1


def test_who_waits_too_long_is_told(tmp_path: Path) -> None:
    folder = AccessFolder(tmp_path, QUEUE)
    stream = Stream(["a"])

    async def act() -> Answer:
        async with routed(FakeEngine(stream), **folder.settings) as router:
            assert router._door is not None
            gate = router._door.gate
            clients = await in_line(router, stream, 2)
            clock = gate._clock
            gate._clock = lambda: clock() + 6
            gate.tick(1)
            return await clients[1].answer()

    answer = run_loop(act())

    assert (answer.status, answer.header(b"retry-after")) == (503, b"7")  # as long as it waited itself
    assert json.loads(answer.body)["error"]["code"] == "queue_timeout"


@pytest.mark.parametrize("guarded", [False, True], ids=["alone", "before a guardrail"])
def test_who_waits_for_as_long_as_an_engine_may_be_silent_is_told_how_long_that_was(
    tmp_path: Path, guarded: bool
) -> None:
    folder = AccessFolder(tmp_path, QUEUE)
    stream = Stream(["a"])
    nowhere = {"guardrail_url": "http://127.0.0.1:1/check", "guardrail_on_failure": "open"}

    async def act() -> tuple[Answer, int, str]:
        settings = folder.settings | (nowhere if guarded else {})
        async with routed(FakeEngine(stream), **settings) as router:
            assert router._door is not None
            gate = router._door.gate
            clients = await in_line(router, stream, 2)
            clock = gate._clock
            gate._clock = lambda: clock() + 4
            (late,) = (one for one in router.connections if isinstance(one.exchange, Arrival))
            assert late.exchange is not None
            late.exchange.time_out()
            return await clients[1].answer(), gate.num_waiting, await metrics(router)

    answer, num_waiting, text = run_loop(act())

    assert (answer.status, answer.header(b"retry-after"), num_waiting) == (503, b"5", 0)
    assert json.loads(answer.body)["error"]["code"] == "queue_timeout"
    assert 'tenant_requests_total{outcome="queue_timeout",tenant="acme"} 1.0' in text


def test_who_finds_the_queue_full_is_told_how_long_others_waited(tmp_path: Path) -> None:
    folder = AccessFolder(tmp_path, QUEUE)
    stream = Stream(["a"])

    async def act() -> Answer:
        async with routed(FakeEngine(stream), **folder.settings) as router:
            assert router._door is not None
            gate = router._door.gate
            clients = await in_line(router, stream, 3)
            clock = gate._clock
            gate._clock = lambda: clock() + 4
            stream.go.set()
            for client in clients:
                await client.answer()
            stream.go.clear()
            more = await in_line(router, stream, 4)
            displaced = await more[3].answer()
            stream.go.set()
            for client in more[:3]:
                await client.answer()
            return displaced

    answer = run_loop(act())

    assert (answer.status, answer.header(b"retry-after")) == (429, b"5")


def test_routers_divide_what_engines_may_have_in_hand(tmp_path: Path) -> None:
    folder = AccessFolder(tmp_path, "access: {queue: {maxInFlightPerReplica: 6}}\n")

    async def act() -> list[float]:
        async with routed(FakeEngine(), FakeEngine(), **folder.settings) as router:
            assert router._door is not None
            found = []
            for num_routers in (1, 3, 5):
                router._door.gate.tick(num_routers)
                found.append(router._door.gate.capacity)
            return found

    assert run_loop(act()) == [12, 4, 3]


def test_a_deadline_leaves_an_engine_what_the_queue_left_of_it(tmp_path: Path) -> None:
    stream = Stream(["a"])

    async def act() -> float:
        async with routed(FakeEngine(stream)) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            await eventually(lambda: stream.begun == 1)
            (connection,) = router.connections
            exchange = connection.exchange
            assert isinstance(exchange, Exchange)
            exchange.end_by(1000.0, waited_seconds=900.0)
            assert exchange._deadline is not None
            return exchange._deadline.when() - asyncio.get_running_loop().time()

    assert round(run_loop(act()), 6) <= 100


def test_a_clients_own_deadline_counts_the_time_in_the_queue(tmp_path: Path) -> None:
    folder = AccessFolder(tmp_path, QUEUE)
    stream = Stream(["a"])

    async def act() -> tuple[Answer, float]:
        async with routed(FakeEngine(stream), **folder.settings) as router:
            assert router._door is not None
            gate = router._door.gate
            clients = [await RawClient.connect(router.port) for _ in range(3)]
            for number, (client, seconds) in enumerate(zip(clients, (60, 2, 60), strict=True)):
                client.send(post(CHAT, BODY, bearer(ACME), b"x-request-timeout: %d" % seconds))
                await eventually(lambda n=number: gate.num_waiting == n and stream.begun == 1)
            clock = gate._clock
            gate._clock = lambda: clock() + 3
            gate.tick(1)
            late = await clients[1].answer()
            stream.go.set()
            await clients[2].answer()
            assert gate.pools is not None
            return late, sum(one.wait_sum for one in gate.pools.counts.values())

    late, waited = run_loop(act())

    assert (late.status, json.loads(late.body)["error"]["code"]) == (504, "deadline_exceeded")
    assert waited >= 3


def test_no_long_body_of_nobody_is_read(tmp_path: Path) -> None:
    async def act() -> tuple[list[int], int, str]:
        async with routed(FakeEngine(), **AccessFolder(tmp_path).settings) as router:
            statuses = []
            for head in (
                b"Content-Length: 50000000\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"Content-Length: 50000000\r\nExpect: 100-continue\r\n",
            ):
                client = await RawClient.connect(router.port)
                client.send(b"POST %s HTTP/1.1\r\nHost: t\r\n%s\r\n" % (CHAT, head))
                answer = await client.answer()
                statuses.append(answer.status)
                assert answer.header(b"connection") == b"close"
            client = await RawClient.connect(router.port)
            key = bearer(ACME) + b"\r\n"
            client.send(b"POST %s HTTP/1.1\r\nHost: t\r\n%sContent-Length: 70000\r\n\r\n{" % (CHAT, key))
            client.send(b" " * 69_998 + b"}")
            statuses.append((await client.answer()).status)
            return statuses, router.budget.held_bytes, await metrics(router)

    statuses, held, text = run_loop(act())

    assert statuses == [401, 401, 401, 200]
    assert held == 0
    assert 'hypertier_router_access_refusals_total{cause="no_key"} 3.0' in text


def test_queue_needs_no_keys_and_empties_where_no_engine_is_left(tmp_path: Path) -> None:
    policy = tmp_path / "access.yaml"
    policy.write_text("access: {queue: {maxInFlightPerReplica: 1, size: 1000}}\n")
    stream = Stream(["a"])
    engine = FakeEngine(stream)

    async def act() -> set[int]:
        async with routed(engine, access=str(policy), retries=0, health_interval_seconds=0.01) as router:
            assert router._door is not None
            gate = router._door.gate
            clients = [await RawClient.connect(router.port) for _ in range(300)]
            for client in clients:
                client.send(post(CHAT, BODY))
            await eventually(lambda: gate.num_waiting == 299)
            await engine.kill()
            return {(await client.answer()).status for client in clients[1:]}

    assert run_loop(act()) <= {502, 503}


def test_jwt_speaks_for_a_tenant_and_a_session(tmp_path: Path) -> None:
    issuer = Issuer()
    jwks = tmp_path / "jwks.json"
    jwks.write_bytes(issuer.jwks())
    folder = AccessFolder(
        tmp_path, f"access: {{jwt: {{jwks: {jwks}, issuer: '{ISSUER}', audience: {AUDIENCE}}}}}\n"
    )
    engines = [FakeEngine(name=f"e{number}") for number in range(4)]

    async def act() -> tuple[list[Answer], set[bytes]]:
        async with routed(*engines, strategy="session", session_key="jwt:sid", **folder.settings) as router:
            token = issuer.token(exp=int(time.time()) + 60, sid="s-1")
            told = [await ask(router, b"Authorization: Bearer " + token) for _ in range(8)]
            wrong = [await ask(router, b"Authorization: Bearer " + token[:-6] + b"AAAAAA")]
            return told + wrong, {answer.body for answer in told}

    answers, bodies = run_loop(act())

    assert [answer.status for answer in answers] == [200] * 8 + [401]
    assert len(bodies) == 1
    assert salt_of("acme").encode() in next(engine for engine in engines if engine.received).received[0].body


def test_new_signing_key_is_taken_from_the_file(tmp_path: Path) -> None:
    old, new = Issuer(kid="k1"), Issuer(kid="k2")
    jwks = tmp_path / "jwks.json"
    jwks.write_bytes(old.jwks())
    folder = AccessFolder(
        tmp_path, f"access: {{jwt: {{jwks: {jwks}, issuer: '{ISSUER}', audience: {AUDIENCE}}}}}\n"
    )

    async def act() -> list[int]:
        async with routed(FakeEngine(), **folder.settings) as router:
            assert router._door is not None
            watch = router._door.watch
            headers = [
                b"Authorization: Bearer " + issuer.token(exp=int(time.time()) + 60) for issuer in (old, new)
            ]
            statuses = [(await ask(router, header)).status for header in headers]
            for text in (new.jwks(old), b"{}", new.jwks()):  # the one in between can't be read
                jwks.unlink()
                jwks.write_bytes(text)
                assert watch._jwt is not None
                await watch._step_jwks(watch._jwt, 0.0)
                statuses += [(await ask(router, header)).status for header in headers]
            return statuses

    assert run_loop(act()) == [200, 401, 200, 200, 200, 200, 401, 200]


def test_tenants_share_no_prefix_in_the_index(tmp_path: Path) -> None:
    """A prompt that acme sent is no news of acme's to zeta."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "word " * 2000}]}).encode()

    async def act() -> list[bool]:
        settings = AccessFolder(tmp_path).settings | {"strategy": "prefixaware", "explain": True}
        async with routed(FakeEngine(), FakeEngine(), **settings) as router:
            answers = [await ask(router, bearer(key), body=body) for key in (ACME, ACME, ZETA, ZETA)]
            return [int(answer.header(b"x-hypertier-matched-bytes") or 0) > 0 for answer in answers]

    assert run_loop(act()) == [False, True, False, True]


def test_an_explanation_is_of_a_tenants_own_cache(tmp_path: Path) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "word " * 2000}]}).encode()

    async def act() -> list[int]:
        settings = AccessFolder(tmp_path).settings | {"strategy": "prefixaware"}
        async with routed(FakeEngine(), FakeEngine(), **settings) as router:
            await ask(router, bearer(ACME), body=body)
            admin = await RawClient.connect(router.metrics_port)
            told = []
            for whose in (b"&tenant=acme", b"&tenant=zeta", b""):
                admin.send(post(b"/explain?path=" + CHAT + whose, body))
                told.append(json.loads((await admin.answer()).body)["matched_bytes"])
            return told

    acme, zeta, nobody = run_loop(act())

    assert acme > 0 == zeta == nobody


def test_nothing_is_left_of_many_requests_that_ended_every_way(tmp_path: Path) -> None:
    folder = AccessFolder(
        tmp_path,
        "access: {default: {concurrentRequests: 40, requestsPerMinute: 60, tokensPerMinute: 20000}, "
        "queue: {maxInFlightPerReplica: 2, size: 10}}\n",
    )

    async def some_fail(request: Received, writer: asyncio.StreamWriter) -> None:
        number = json.loads(request.body)["n"]
        if number % 5 == 0:
            writer.transport.abort()
        elif number % 5 == 1:
            writer.write(SSE_HEAD + event("a"))
            await writer.drain()
            writer.transport.abort()
        else:
            writer.write(json_answer(b"{}", b"503 Busy" if number % 5 == 2 else b"200 OK"))

    async def act() -> tuple[set[int], list[int]]:
        async with routed(
            FakeEngine(some_fail), FakeEngine(some_fail), health_interval_seconds=0.01, **folder.settings
        ) as router:
            assert router._door is not None
            gate = router._door.gate
            statuses = set()
            for batch in range(8):
                clients = []
                for number in range(60):
                    client = await RawClient.connect(router.port)
                    key = (ACME, ZETA, "sk-ht-nobody")[number % 3]
                    client.send(post(CHAT, b'{"n": %d}' % (batch * 60 + number), bearer(key)))
                    clients.append(client)
                for number, client in enumerate(clients):
                    if number % 7 == 6:
                        client.close()
                    else:
                        statuses.add((await client.answer()).status)
                        client.close()
            await eventually(lambda: not router.connections)
            left = [gate.num_running, gate.num_waiting, router.budget.held_bytes]
            left += [tenant.limits.in_flight + tenant.num_queued for tenant in gate.tenants]
            return statuses, left

    statuses, left = run_loop(act())

    assert {200, 401, 429} <= statuses
    assert set(left) == {0}


class Faulty(Routes):
    """What no file can say."""

    def strategy_of(self, model: bytes | None, header: bytes | None) -> str | None:
        raise RuntimeError("a fault")


def test_fault_on_the_way_leaves_no_place_taken(tmp_path: Path) -> None:
    """One place: without it given back, the second request would wait for ever."""

    async def act() -> tuple[list[int], int]:
        async with routed(FakeEngine(), **AccessFolder(tmp_path, QUEUE).settings) as router:
            router.front.asking.use(Faulty(strategy="session"))
            statuses = [(await ask(router, bearer(ACME))).status for _ in range(3)]
            router.front.asking.use(Routes())
            statuses.append((await ask(router, bearer(ACME))).status)
            assert router._door is not None
            return statuses, sum(tenant.limits.in_flight for tenant in router._door.gate.tenants)

    assert run_loop(act()) == ([500, 500, 500, 200], 0)
