"""What a router tells of its decisions, and to whom."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fakes_access import ACME, AccessFolder, bearer
from fakes_engine import FakeEngine, RawClient, Received, get, json_answer, post, run_loop
from fakes_router import healthy_replicas, routed

from hypertier.cli.explain import _lines, command
from hypertier.router.app import Router
from hypertier.router.strategies.strategy import Choice
from hypertier.router.telemetry.decisions import MAX_DECISIONS, MAX_NAME_BYTES, BrokeOff, Decision, Decisions

CHAT = b"/v1/chat/completions"
SECRET = "the prompt that nobody may see"
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": SECRET * 20}]}).encode()
USAGE = b'{"usage":{"prompt_tokens":123,"prompt_tokens_details":{"cached_tokens":96}}}'


async def with_usage(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(json_answer(USAGE))


def served(
    act: Callable[[Router, RawClient, RawClient], Awaitable[Any]], *, count: int = 2, **settings: Any
) -> Any:
    """Act on a router with a port for metrics: it, a client of it, and one of that port."""

    async def run() -> Any:
        engines = [FakeEngine(with_usage) for _ in range(count)]
        async with routed(*engines, metrics_port=0, strategy="prefixaware", **settings) as router:
            client = await RawClient.connect(router.port)
            return await act(router, client, await RawClient.connect(router.metrics_port))

    return run_loop(run())


async def asked(client: RawClient, data: bytes) -> Any:
    client.send(data)
    return json.loads((await client.answer()).body)


def test_request_that_nobody_answered_is_kept_with_all_that_were_tried() -> None:
    async def hang_up(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def act() -> Any:
        async with routed(FakeEngine(hang_up), FakeEngine(hang_up), metrics_port=0) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY, b"x-request-id: lost"))
            assert (await client.answer()).status == 502
            return await asked(await RawClient.connect(router.metrics_port), get(b"/decisions?id=lost"))

    (decision,) = run_loop(act())["decisions"]

    assert (decision["status"], decision["ttft_seconds"], len(decision["tried_before"])) == ("5xx", None, 2)


def test_names_that_are_long_are_kept_in_part() -> None:
    """A client may write megabytes there, and 1,024 requests are kept."""
    name = "m" * 100_000

    async def act(router: Router, client: RawClient, admin: RawClient) -> Any:
        client.send(
            post(CHAT, b'{"model": "%s", "messages": []}' % name.encode(), b"x-request-id: " + b"i" * 999)
        )
        await client.answer()
        return (await asked(admin, get(b"/decisions?id=" + b"i" * 999)))["decisions"]

    (decision,) = served(act)

    assert (decision["request_id"], decision["model"]) == ("i" * MAX_NAME_BYTES, name[:MAX_NAME_BYTES])


def test_decision_is_told_by_its_id_with_what_came_of_it_and_without_the_prompt() -> None:
    async def act(router: Router, client: RawClient, admin: RawClient) -> tuple[Any, str]:
        client.send(post(CHAT, BODY, b"x-request-id: mine", b"authorization: Bearer key"))
        await client.answer()
        client.send(post(CHAT, BODY, b"x-request-id: other"))
        await client.answer()
        told = await asked(admin, get(b"/decisions?id=mine"))
        return told["decisions"], json.dumps(await asked(admin, get(b"/decisions")))

    (decision,), everything = served(act)

    assert decision["request_id"] == "mine"
    assert decision["model"] == "m"
    assert decision["reason"] == "load"
    assert decision["status"] == "2xx"
    assert decision["replica"].startswith("http://127.0.0.1:")
    assert 0 <= decision["ttft_seconds"] <= decision["seconds"]
    assert decision["candidates"] == []
    assert "nobody may see" not in everything
    assert "Bearer" not in everything


@pytest.mark.parametrize(
    ("settings", "header", "explained", "weighed"),
    [
        ({"explain_on_request": True}, b"x-hypertier-explain: 1", True, True),
        ({"explain_on_request": True}, b"x-nothing: 1", False, False),
        ({}, b"x-hypertier-explain: 1", False, False),
        ({"explain": True}, b"x-nothing: 1", True, False),
    ],
    ids=["asked", "not-asked", "not-allowed", "always"],
)
def test_who_asks_and_may_is_told_of_every_candidate(
    settings: dict[str, Any], header: bytes, explained: bool, weighed: bool
) -> None:
    async def act(router: Router, client: RawClient, admin: RawClient) -> tuple[Any, bytes | None]:
        for _ in range(2):
            client.send(post(CHAT, BODY, b"x-request-id: mine", header))
            answer = await client.answer()
        return (await asked(admin, get(b"/decisions?id=mine")))["decisions"], answer.header(
            b"x-hypertier-reason"
        )

    decisions, reason = served(act, **settings)

    latest = decisions[0]
    assert reason == (b"prefix" if explained else None)
    assert len(latest["candidates"]) == (2 if weighed else 0)
    assert latest["cached_tokens"] == (96 if weighed else None)
    if weighed:
        by_url = {candidate["replica"]: candidate for candidate in latest["candidates"]}
        assert by_url[latest["replica"]]["matched_bytes"] > 0


def test_candidates_are_weighed_as_they_were_before_the_request_went_to_one() -> None:
    async def act(router: Router, client: RawClient, admin: RawClient) -> Any:
        client.send(post(CHAT, BODY, b"x-request-id: first", b"x-hypertier-explain: 1"))
        await client.answer()
        return (await asked(admin, get(b"/decisions?id=first")))["decisions"][0]

    decision = served(act, explain_on_request=True)

    assert decision["matched_bytes"] == 0
    assert [candidate["matched_bytes"] for candidate in decision["candidates"]] == [0, 0]


@pytest.mark.parametrize(
    ("asks_for", "routes", "aliases"),
    [
        ("m", "", ()),
        ("other-name", "", ("other-name=m",)),
        ("m", "strategy: session", ()),
        ("routed", "models: {routed: {split: {m: 1}}}", ()),
        ("renamed", "models: {m: {strategy: session}}", ("renamed=m",)),
        ("unserved", "", ()),
        ("routed", "models: {routed: {split: {unserved: 1}}}", ()),
    ],
)
@pytest.mark.parametrize("tenant", [None, "acme"])
def test_explanation_says_what_becomes_of_the_request(
    tmp_path: Path, tenant: str | None, asks_for: str, routes: str, aliases: tuple[str, ...]
) -> None:
    """Whatever the router does to a body before it chooses is done to the one that is explained."""
    settings: dict[str, Any] = AccessFolder(tmp_path).settings if tenant else {"metrics_port": 0}
    if routes:
        (tmp_path / "routes.yaml").write_text(routes)
        settings["routes"] = str(tmp_path / "routes.yaml")
    body = json.dumps({"model": asks_for, "messages": [{"role": "user", "content": SECRET * 20}]}).encode()
    whose = b"" if tenant is None else b"?tenant=" + tenant.encode()
    seen = ("model", "prompt_bytes", "replica", "reason", "matched_bytes")

    async def act() -> tuple[Any, Any, int]:
        engines = [FakeEngine(with_usage, models=("m",)) for _ in range(2)]
        async with routed(*engines, strategy="prefixaware", model_alias=aliases, **settings) as router:
            client, admin = await RawClient.connect(router.port), await RawClient.connect(router.metrics_port)
            client.send(post(CHAT, body, bearer(ACME)))
            await client.answer()
            explained = await asked(admin, post(b"/explain" + whose, body))
            client.send(post(CHAT, body, bearer(ACME), b"x-request-id: second"))
            status = (await client.answer()).status
            return explained, (await asked(admin, get(b"/decisions?id=second")))["decisions"], status

    explained, decisions, status = run_loop(act())

    if status == 404:
        assert (explained["replica"], explained["reason"], decisions) == (None, "model_not_found", [])
    else:
        assert status == 200
        assert {key: explained[key] for key in seen} == {key: decisions[0][key] for key in seen}
        assert explained["matched_bytes"] > 0 or explained["reason"] in ("session", "load")


def test_explanation_sends_no_shadow(tmp_path: Path) -> None:
    (tmp_path / "routes.yaml").write_text("models: {m: {shadow: {model: m}}}")

    async def act(router: Router, client: RawClient, admin: RawClient) -> int:
        await asked(admin, post(b"/explain", BODY))
        return router.replicas.in_flight

    assert served(act, routes=str(tmp_path / "routes.yaml")) == 0


def test_explanation_of_a_body_sends_nothing() -> None:
    async def act(router: Router, client: RawClient, admin: RawClient) -> tuple[Any, str]:
        client.send(post(CHAT, BODY))
        await client.answer()
        told = await asked(admin, post(b"/explain?path=/v1/chat/completions", BODY))
        admin.send(get(b"/metrics"))
        return told, (await admin.answer()).body.decode()

    told, metrics = served(act)

    assert told["reason"] == "prefix"
    assert told["matched_bytes"] > 0
    assert len(told["candidates"]) == 2
    picks = [line for line in metrics.splitlines() if line.startswith("hypertier_router_picks_total")]
    assert sum(float(line.split()[-1]) for line in picks) == 1


def test_clients_port_tells_nothing() -> None:
    async def act(router: Router, client: RawClient, admin: RawClient) -> bytes:
        client.send(get(b"/decisions"))
        return (await client.answer()).body

    assert served(act) == USAGE  # an engine's answer, as to any path


def test_only_the_latest_are_kept() -> None:
    decisions = Decisions()
    for number in range(MAX_DECISIONS + 5):
        decisions.add(Decision(b"%d" % number, None, 0, None, (), "2xx", None, 0.0))

    told = decisions.told(None, 10**6)

    assert len(told) == MAX_DECISIONS
    assert told[0]["request_id"] == str(MAX_DECISIONS + 4)
    assert decisions.told("4", 10) == []


def test_explanation_of_a_stream_that_moved_tells_every_replica_and_the_first_ones_time() -> None:
    _, (first, last) = healthy_replicas(2)
    left = BrokeOff(Choice(first, "prefix", 7, predicted_seconds=0.5), "idle", 61.0)
    choice = Choice(last, "migration", predicted_seconds=9.0)
    told = Decision(b"i", b"m", 9, choice, [first.url], "2xx", 0.4, 70.0, broke_off=(left,)).told(0.0)

    text = _lines(told)

    assert f"i: {last.url} (migration)" in text
    assert f"before, {first.url} (prefix) wrote a part, and broke off after 61.000 s (idle)" in text
    assert "first byte: predicted 0.500 s, was 0.400 s" in text


def test_command_says_where_and_why(tmp_path: Path) -> None:
    (tmp_path / "body.json").write_bytes(BODY)

    async def act(router: Router, client: RawClient, admin: RawClient) -> list[Any]:
        client.send(post(CHAT, BODY, b"x-request-id: mine", b"x-hypertier-explain: 1"))
        await client.answer()
        url = f"http://127.0.0.1:{router.metrics_port}"
        cases = (
            ["mine"],
            ["--request", str(tmp_path / "body.json")],
            ["no-such"],
            ["mine", "--format", "json"],
        )
        return [
            await asyncio.to_thread(CliRunner().invoke, command, ["--router", url, *case]) for case in cases
        ]

    went, would_go, unknown, as_json = served(act, explain_on_request=True)

    assert "mine: http://127.0.0.1:" in went.output
    assert "96 tokens were" in went.output
    assert "(prefix)" in would_go.output
    assert unknown.exit_code != 0
    assert json.loads(as_json.output)[0]["request_id"] == "mine"
