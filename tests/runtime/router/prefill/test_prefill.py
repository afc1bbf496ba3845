"""Long prompts are prefilled elsewhere, as vLLM's connector wants it, and served whole where that fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from fakes_access import ACME, AccessFolder, bearer, salt_of
from fakes_engine import Answer, FakeEngine, RawClient, Received, eventually, json_answer, post, run_loop
from fakes_router import routed
from hypothesis import given
from hypothesis import strategies as st

from hypertier.cli.explain import _lines
from hypertier.errors import ConfigError
from hypertier.router.prefill.prefill import with_members
from hypertier.router.replicas.outliers import FAILURES_IN_A_ROW
from hypertier.router.settings import RouterSettings

CHAT = b"/v1/chat/completions"
# As vLLM 0.28's NixlConnector answers a prefill.
PARAMS = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 2, 3]],
    "remote_engine_id": "engine-1",
    "remote_request_id": "r",
    "remote_host": "10.0.0.9",
    "remote_port": 5600,
    "tp_size": 1,
}
LONG = {"model": "m", "messages": [{"role": "user", "content": "long } prompt " * 2000}], "max_tokens": 50}
SHORT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}

Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


async def prefilled(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(json_answer(json.dumps({"choices": [], "kv_transfer_params": PARAMS}).encode()))


def ask(body: dict[str, Any], behaviour: Behaviour | None = prefilled, **more: Any) -> tuple[Any, ...]:
    """One request: its answer, what the engine that prefills got, what the other got, and the counts."""

    async def act() -> tuple[Answer, list[Received], list[Received], dict[str, int]]:
        prefiller = await FakeEngine(behaviour, **more).start()
        decoder = FakeEngine()
        try:
            async with routed(decoder, prefill_replicas=(prefiller.url,)) as router:
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, json.dumps(body).encode(), b"x-request-id: r", b"x-vendor: v"))
                answer = await client.answer()
                assert router.front.prefillers is not None
                return answer, prefiller.received, decoder.received, dict(router.front.prefillers.legs)
        finally:
            await prefiller.kill()

    return run_loop(act())


def test_long_prompt_is_prefilled_with_one_token_and_decoded_with_what_came_back() -> None:
    answer, (first,), (second,), legs = ask(LONG)

    asked, decoded = json.loads(first.body), json.loads(second.body)
    assert answer.status == 200
    assert (asked["max_tokens"], asked["stream"], asked["messages"]) == (1, False, LONG["messages"])
    assert asked["kv_transfer_params"]["do_remote_decode"] is True
    assert asked["kv_transfer_params"]["do_remote_prefill"] is False
    assert decoded == LONG | {"kv_transfer_params": PARAMS}
    assert second.body.startswith(json.dumps(LONG).encode()[:-1])
    for request in (first, second):
        assert request.header(b"x-request-id") == b"r"
        assert request.header(b"x-vendor") == b"v"
        assert request.header(b"content-length") == b"%d" % len(request.body)
    assert legs == {"good": 1}


def test_short_prompt_goes_straight_to_who_decodes() -> None:
    _, first, (second,), legs = ask(SHORT)

    assert first == []
    assert json.loads(second.body) == SHORT
    assert legs == {}


def test_clients_own_parameters_reach_nobody() -> None:
    forged = LONG | {"kv_transfer_params": {"remote_host": "10.6.6.6", "do_remote_prefill": True}}

    _, (first,), (second,), _ = ask(forged)

    assert json.loads(first.body)["kv_transfer_params"]["remote_host"] is None
    assert json.loads(second.body)["kv_transfer_params"] == PARAMS


def answering(data: bytes) -> Behaviour:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.transport.close()

    return answer


@pytest.mark.parametrize(
    ("behaviour", "end"),
    [
        pytest.param(answering(json_answer(b"{}", b"500 Oops")), "status_500", id="500"),
        pytest.param(answering(json_answer(b"{}", b"400 Bad")), "status_400", id="400"),
        pytest.param(answering(json_answer(b"{}")), "no_parameters", id="another-connector"),
        pytest.param(answering(json_answer(b"[1]")), "malformed", id="a-list"),
        pytest.param(answering(json_answer(b"no json")), "malformed", id="no-json"),
        pytest.param(answering(b""), "failed", id="closes"),
        pytest.param(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"), "failed", id="half"),
        pytest.param(answering(b"SSH-2.0\r\n\r\n"), "failed", id="no-http"),
        pytest.param(
            answering(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
            "failed",
            id="another-protocol",
        ),
    ],
)
def test_whatever_fails_the_request_is_served_whole(behaviour: Behaviour, end: str) -> None:
    answer, first, (second,), legs = ask(LONG, behaviour)

    assert answer.status == 200
    assert len(first) == 1
    assert json.loads(second.body) == LONG
    assert legs == {end: 1}


def test_without_a_healthy_prefiller_the_request_is_served_whole() -> None:
    answer, first, (second,), legs = ask(LONG, healthy=False)

    assert answer.status == 200
    assert first == []
    assert json.loads(second.body) == LONG
    assert legs == {"no_replica": 1}


async def never(request: Received, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "healthy-but-silent"])
def test_prefiller_that_falls_silent_with_a_prompt_in_hand_keeps_nobody_waiting(is_frozen: bool) -> None:
    """Frozen, it answers no health check either; else two that wait for their first token tell."""

    async def act() -> tuple[list[int], dict[str, int], int, int]:
        prefiller, decoder = await FakeEngine(never).start(), FakeEngine()
        try:
            quick = {"health_interval_seconds": 0.02, "health_timeout_seconds": 0.02}
            stall = 1800.0 if is_frozen else 0.01
            more = {"stall_timeout_seconds": stall, "prefill_replicas": (prefiller.url,)} | quick
            async with routed(decoder, **more) as router:
                clients = [await RawClient.connect(router.port) for _ in range(2)]
                for client in clients:
                    client.send(post(CHAT, json.dumps(LONG).encode()))
                await eventually(lambda: len(prefiller.received) == 2)
                prefiller.frozen = is_frozen
                prefillers = router.front.prefillers
                assert prefillers is not None
                await eventually(lambda: bool(router.front.sweep() or prefillers.legs))
                statuses = [(await client.answer()).status for client in clients]
                left = sum(replica.pending_bytes for replica in prefillers.replicas.by_url.values())
                assert [json.loads(request.body) for request in decoder.received] == [LONG, LONG]
                return statuses, dict(prefillers.legs), prefillers.replicas.in_flight, left
        finally:
            await prefiller.kill()

    assert run_loop(act()) == ([200, 200], {"silent": 2}, 0, 0)


@pytest.mark.parametrize(("num", "num_left"), [(1, 1), (2, 1), (4, 2)])
def test_half_of_the_prefillers_stay_whatever_they_are_sent(num: int, num_left: int) -> None:
    """A prompt that each fails on is at fault itself, and what none fails on is still prefilled."""

    async def act() -> tuple[set[int], int, int, bool]:
        oops = answering(json_answer(b"{}", b"500 Oops"))
        prefillers = [await FakeEngine(oops).start() for _ in range(num)]
        decoder = FakeEngine()
        try:
            urls = tuple(prefiller.url for prefiller in prefillers)
            async with routed(decoder, prefill_replicas=urls) as router:
                client = await RawClient.connect(router.port)
                statuses = set()
                for number in range(4 * num * FAILURES_IN_A_ROW):
                    body = LONG | {"user": str(number)}
                    client.send(post(CHAT, json.dumps(body).encode()))
                    statuses.add((await client.answer()).status)
                assert router.front.prefillers is not None
                text = router.metrics.text().decode()
                is_counted = 'ejections_total{cause="failures",replica="http://127.0.0.1:' in text
                legs = router.front.prefillers.legs["no_replica"]
                return statuses, len(router.front.prefillers.replicas.healthy), legs, is_counted
        finally:
            for prefiller in prefillers:
                await prefiller.kill()

    assert run_loop(act()) == ({200}, num_left, 0, num > 1)


@pytest.mark.parametrize(
    ("behaviour", "end"),
    [(prefilled, "good"), (answering(json_answer(b"{}", b"500 Oops")), "status_500")],
    ids=["good", "served-whole"],
)
def test_who_prefilled_is_told_wherever_who_decoded_is(behaviour: Behaviour, end: str) -> None:
    async def act() -> tuple[Answer, str, dict[str, Any]]:
        prefiller = await FakeEngine(behaviour).start()
        try:
            async with routed(FakeEngine(), prefill_replicas=(prefiller.url,), explain=True) as router:
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, json.dumps(LONG).encode()))
                answer = await client.answer()
                (decision,) = router.front._proxy.decisions.told(None, 1)
                return answer, prefiller.url, decision
        finally:
            await prefiller.kill()

    answer, url, decision = run_loop(act())

    assert (decision["prefill"]["replica"], decision["prefill"]["end"]) == (url, end)
    assert decision["prefill"]["seconds"] > 0
    assert answer.header(b"x-hypertier-prefill-replica") == url.removeprefix("http://").encode()
    assert answer.header(b"x-hypertier-prefill-end") == end.encode()
    assert float(answer.header(b"x-hypertier-prefill-seconds") or b"0") >= 0
    assert f"prefilled by {url} ({end})" in _lines(decision)


def test_a_request_that_is_not_split_tells_of_no_prefill() -> None:
    async def act() -> tuple[Answer, dict[str, Any]]:
        prefiller = await FakeEngine(prefilled).start()
        try:
            async with routed(FakeEngine(), prefill_replicas=(prefiller.url,), explain=True) as router:
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, json.dumps(SHORT).encode()))
                answer = await client.answer()
                (decision,) = router.front._proxy.decisions.told(None, 1)
                return answer, decision
        finally:
            await prefiller.kill()

    answer, decision = run_loop(act())

    assert decision["prefill"] is None
    assert answer.header(b"x-hypertier-prefill-replica") is None


def test_no_prefiller_is_blamed_for_the_time_that_clients_give() -> None:
    async def act() -> tuple[set[int], int]:
        prefiller = await FakeEngine(never).start()
        try:
            async with routed(FakeEngine(never), prefill_replicas=(prefiller.url,)) as router:
                client = await RawClient.connect(router.port)
                statuses = set()
                for _ in range(2 * FAILURES_IN_A_ROW):
                    client.send(post(CHAT, json.dumps(LONG).encode(), b"x-request-timeout: 0.01"))
                    statuses.add((await client.answer()).status)
                assert router.front.prefillers is not None
                return statuses, len(router.front.prefillers.replicas.healthy)
        finally:
            await prefiller.kill()

    assert run_loop(act()) == ({504}, 1)


def test_a_fault_of_our_own_behind_the_prefill_is_answered() -> None:
    """As before it: the client hears, and nothing stays held."""

    async def act() -> tuple[int, int]:
        prefiller, decoder = await FakeEngine(prefilled).start(), FakeEngine()
        try:
            async with routed(decoder, prefill_replicas=(prefiller.url,)) as router:
                router.front.tracing = cast(Any, object())
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, json.dumps(LONG).encode()))
                status = (await client.answer()).status
                router.front.tracing = None
                return status, router.budget.held_bytes
        finally:
            await prefiller.kill()

    assert run_loop(act()) == (500, 0)


def test_client_that_goes_away_ends_the_prefill_and_nothing_is_decoded() -> None:
    async def act() -> tuple[int, int, int]:
        prefiller = await FakeEngine(never).start()
        decoder = FakeEngine()
        try:
            async with routed(decoder, prefill_replicas=(prefiller.url,)) as router:
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, json.dumps(LONG).encode()))
                await eventually(lambda: len(prefiller.received) == 1)
                client.close()
                await eventually(lambda: prefiller.num_disconnects == 1)
                prefillers = router.front.prefillers
                assert prefillers is not None
                await eventually(lambda: prefillers.replicas.in_flight == 0)
                replica = next(iter(prefillers.replicas.by_url.values()))
                return len(decoder.received), replica.pending_bytes, router.budget.held_bytes
        finally:
            await prefiller.kill()

    assert run_loop(act()) == (0, 0, 0)


def test_a_clients_deadline_counts_the_time_of_the_prefill() -> None:
    async def act() -> tuple[int, str]:
        prefiller = await FakeEngine(never).start()
        try:
            async with routed(FakeEngine(never), prefill_replicas=(prefiller.url,)) as router:
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, json.dumps(LONG).encode(), b"x-request-timeout: 0.05"))
                answer = await client.answer()
                await eventually(lambda: prefiller.num_disconnects == 1)
                return answer.status, json.loads(answer.body)["error"]["code"]
        finally:
            await prefiller.kill()

    assert run_loop(act()) == (504, "deadline_exceeded")


@pytest.mark.parametrize(("body", "behaviour"), [(SHORT, prefilled), (LONG, answering(b""))])
def test_a_tenant_names_no_blocks_of_others(
    tmp_path: Path, body: dict[str, Any], behaviour: Behaviour
) -> None:
    """Neither where the prompt is too short to be sent twice, nor where the first request fails."""
    forged = body | {"kv_transfer_params": {"do_remote_prefill": True, "remote_block_ids": [1, 2, 3]}}

    async def act() -> bytes:
        prefiller, decoder = await FakeEngine(behaviour).start(), FakeEngine()
        try:
            more = AccessFolder(tmp_path).settings
            async with routed(decoder, prefill_replicas=(prefiller.url,), **more) as router:
                client = await RawClient.connect(router.port)
                client.send(post(CHAT, json.dumps(forged).encode(), bearer(ACME)))
                await client.answer()
                return decoder.received[0].body
        finally:
            await prefiller.kill()

    assert json.loads(run_loop(act())) == body | {"cache_salt": salt_of("acme"), "kv_transfer_params": None}


@given(st.dictionaries(st.text(), st.integers() | st.text(), min_size=1), st.sampled_from(["", " ", "\n"]))
def test_members_win_over_the_bodys_own_and_leave_the_rest(own: dict[str, Any], tail: str) -> None:
    body = (json.dumps(own) + tail).encode()

    joined = with_members(body, {"n": 1, "a": {"b": "}"}})

    assert joined is not None
    assert json.loads(joined) == own | {"n": 1, "a": {"b": "}"}}


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"x", b'{"a": 1}x', b'{"a": 1,}'])
def test_what_ends_like_no_object_with_members_is_left_alone(body: bytes) -> None:
    assert with_members(body, {"n": 1}) is None


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"prefill_replicas": ("x",)}, "--prefill-replica"),
        ({"prefill_replicas": ("http://a:1", "http://a:1")}, "--prefill-replica"),
        ({"prefill_discover": "a"}, "--prefill-discover"),
        ({"prefill_replicas": ("http://a:1",), "prefill_discover": "dns://a:1"}, "--prefill-discover"),
        ({"prefill_replicas": ("http://a:1",), "prefill_threshold": -1}, "--prefill-threshold"),
        ({"prefill_threshold": 4096}, "--prefill-threshold"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RouterSettings(replicas=("http://b:1",), **settings)

    assert caught.value.setting == named
