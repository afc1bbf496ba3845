"""What changes without a restart: strategies, splits and shadows, and what a broken file changes: nothing."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fakes_engine import (
    FakeEngine,
    RawClient,
    Received,
    Stream,
    eventually,
    get,
    json_answer,
    post,
    run_loop,
)
from fakes_router import routed

from hypertier.errors import ConfigError
from hypertier.router.app import Router
from hypertier.router.process.stamps import Complaint
from hypertier.router.routes.route_file import RouteFile
from hypertier.router.routes.routes import Route, Routes, parse
from hypertier.router.settings import RouterSettings

CHAT = b"/v1/chat/completions"


def body_for(model: str, prompt: str = "Hi") -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]}).encode()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("strategy: nearest", "strategy"),
        ("strategy: kvaware", "strategy"),
        ("strategies: prefixaware", "routes.strategies"),
        ("strategyByHeader: 1", "strategyByHeader"),
        ("models: [a]", "models"),
        ("models: []", "models"),
        ("models: false", "models"),
        ("models: {a: {split: []}}", "models.a.split"),
        ("models: {a: {split: ''}}", "models.a.split"),
        ("models: {a: {split: {b: -1}}}", "models.a.split"),
        ("models: {a: {split: {b: 0}}}", "models.a.split"),
        ("models: {a: {split: {b: .nan}}}", "models.a.split"),
        ("models: {a: {rollback: {}}}", "models.a.split"),
        ("models: {a: {split: {b: 1, c: 0}, rollback: {}}}", "models.a.split"),
        ("models: {a: {split: {b: 1, c: 1}, rollback: true}}", "models.a.rollback"),
        ("models: {a: {split: {b: 1, c: 1}, rollback: {errors: 1}}}", "models.a.rollback.errors"),
        (
            "models: {a: {split: {b: 1, c: 1}, rollback: {errorPercent: 101}}}",
            "models.a.rollback.errorPercent",
        ),
        ("models: {a: {split: {b: 1, c: 1}, rollback: {ttftRatio: 0.9}}}", "models.a.rollback.ttftRatio"),
        ("models: {a: {split: {b: 1, c: 1}, rollback: {minRequests: 5}}}", "models.a.rollback.minRequests"),
        ("models: {a: {shadow: {percent: 5}}}", "models.a.shadow.model"),
        ("models: {a: {shadow: {model: b, percent: 101}}}", "models.a.shadow.percent"),
        ("models: {a: {weight: 1}}", "models.a.weight"),
        ("{", "--routes"),
        ("strategy: 2001-99-99", "--routes"),
        ("- a", "routes"),
        ("models: &a {default: *a}", "models.default.default"),
        ("models: {a: {split: &a {b: *a}}}", "models.a.split"),
    ],
)
def test_file_that_makes_no_sense_names_its_key(text: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), has_kvaware=False)

    assert caught.value.setting == named


def test_file_that_is_no_yaml_is_named_by_its_path(tmp_path: Path) -> None:
    path = routes_of(tmp_path, "{")

    with pytest.raises(ConfigError, match=f"--routes is '{path}'; expected YAML"):
        RouteFile(path, has_kvaware=False, use=print, complaint=Complaint(print, print)).start()


def test_empty_file_changes_nothing() -> None:
    assert parse(b"", has_kvaware=False) == Routes()


def test_split_follows_its_weights_and_keeps_a_key_where_it_is() -> None:
    route = parse(b"models: {a: {split: {v1: 3, v2: 1}}}", False).models[b"a"]

    counts = Counter(route.variant(b"key-%d" % number) for number in range(4000))

    assert 0.7 < counts[b"v1"] / 4000 < 0.8
    assert len({route.variant(b"one") for _ in range(100)}) == 1


def test_more_weight_moves_no_key_away_from_what_gained_it() -> None:
    before = parse(b"models: {a: {split: {v2: 5, v1: 95}}}", False).models[b"a"]
    after = parse(b"models: {a: {split: {v2: 20, v1: 80}}}", False).models[b"a"]
    keys = [b"%d" % number for number in range(2000)]

    canaries = [key for key in keys if before.variant(key) == b"v2"]

    assert canaries
    assert {after.variant(key) for key in canaries} == {b"v2"}


def test_broken_change_keeps_what_was_and_is_counted(tmp_path: Path) -> None:
    path, used, reports = tmp_path / "routes.yaml", [], []
    path.write_text("strategy: session")
    file = RouteFile(
        str(path), has_kvaware=False, use=used.append, complaint=Complaint(reports.append, print)
    )
    file.start()

    for text in ("strategy: nowhere", "strategy: roundrobin now"):
        path.write_text(text)
        file.step()
    path.write_bytes(b"\xff")
    file.step()
    path.write_text("strategy: prefixaware")
    file.step()
    file.step()

    assert [routes.strategy for routes in used] == ["session", "prefixaware"]
    assert file.reads == {"good": 2, "failed": 3}
    assert "strategy is 'nowhere'" in reports[0]


def test_linked_file_that_is_swapped_is_read(tmp_path: Path) -> None:
    link, used = tmp_path / "routes.yaml", []
    for name, strategy in (("one", "session"), ("two", "roundrobin")):
        (tmp_path / name).write_text(f"strategy: {strategy}")
    link.symlink_to(tmp_path / "one")
    file = RouteFile(str(link), has_kvaware=False, use=used.append, complaint=Complaint(print, print))
    file.start()

    (tmp_path / "new").symlink_to(tmp_path / "two")
    (tmp_path / "new").rename(link)
    file.step()

    assert [routes.strategy for routes in used] == ["session", "roundrobin"]


def test_router_does_not_start_with_a_file_that_it_cannot_use(tmp_path: Path) -> None:
    async def act() -> None:
        router = Router(
            RouterSettings(
                listen="127.0.0.1:0",
                replicas=("http://127.0.0.1:1",),
                routes=routes_of(tmp_path, "strategy: none"),
            )
        )
        try:
            await router.start()
        finally:
            await router.stop()

    with pytest.raises(ConfigError, match="strategy is 'none'"):
        run_loop(act())


def test_file_that_is_not_there_changes_nothing_until_it_comes(tmp_path: Path) -> None:
    path, used = tmp_path / "routes.yaml", []
    file = RouteFile(str(path), has_kvaware=False, use=used.append, complaint=Complaint(print, print))
    file.start()
    path.write_text("strategy: session")
    file.step()
    path.unlink()
    file.step()

    assert [routes.strategy for routes in used] == [None, "session", None]


def routes_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "routes.yaml"
    path.write_text(text)
    return str(path)


def reasons(tmp_path: Path, text: str, *headers: bytes, change: str | None = None) -> list[bytes | None]:
    """Why two equal requests went where they did, and two more after the file changed."""

    async def act() -> list[bytes | None]:
        path = routes_of(tmp_path, text)
        engines = [FakeEngine(models=("m",)), FakeEngine(models=("m",))]
        async with routed(*engines, routes=path, explain=True) as router:
            client = await RawClient.connect(router.port)
            found = []
            for turn in (text, change):
                if turn is None:
                    break
                Path(path).write_text(turn)
                assert router._route_file is not None
                router._route_file.step()
                for _ in range(2):
                    client.send(post(CHAT, body_for("m", "Tell me. " * 50), b"x-session-id: s", *headers))
                    found.append((await client.answer()).header(b"x-hypertier-reason"))
            return found

    return run_loop(act())


def test_strategy_changes_without_a_restart_and_finds_its_index_warm(tmp_path: Path) -> None:
    found = reasons(tmp_path, "strategy: session", change="models: {m: {strategy: prefixaware}}")

    assert found == [b"session", b"session", b"prefix", b"prefix"]


@pytest.mark.parametrize(("allowed", "expected"), [("true", b"session"), ("false", b"turn")])
def test_header_chooses_the_strategy_where_it_may(tmp_path: Path, allowed: str, expected: bytes) -> None:
    found = reasons(tmp_path, f"strategyByHeader: {allowed}", b"x-hypertier-strategy: session")

    assert set(found) == {expected}


@pytest.mark.parametrize(
    ("text", "wished", "told"),
    [
        ("strategyByHeader: true", b"session", b"session"),
        ("strategyByHeader: true", b"nearest", None),
        ("strategyByHeader: true", b"kvaware", None),  # which this router was not started with
        ("{strategyByHeader: true, strategy: session}", b"nearest", b"session"),
        ("strategyByHeader: false", b"session", None),
        ("strategyByHeader: true", None, None),
    ],
)
def test_client_that_wishes_for_a_strategy_is_told_which_one_chose(
    tmp_path: Path, text: str, wished: bytes | None, told: bytes | None
) -> None:
    async def act() -> bytes | None:
        async with routed(FakeEngine(models=("m",)), routes=routes_of(tmp_path, text)) as router:
            client = await RawClient.connect(router.port)
            headers = [b"x-hypertier-strategy: " + wished] if wished is not None else []
            client.send(post(CHAT, body_for("m"), *headers))
            return (await client.answer()).header(b"x-hypertier-strategy")

    assert run_loop(act()) == told


def test_canary_gets_its_share_under_its_own_name(tmp_path: Path) -> None:
    async def act() -> tuple[list[bytes], list[bytes]]:
        path = routes_of(tmp_path, "models: {m: {split: {m: 80, m2: 20}}}")
        stable, canary = FakeEngine(models=("m",)), FakeEngine(models=("m2",))
        async with routed(stable, canary, routes=path) as router:
            client = await RawClient.connect(router.port)
            for number in range(200):
                client.send(post(CHAT, body_for("m"), b"x-request-id: %d" % number))
                assert (await client.answer()).status == 200
        return [r.body for r in stable.received], [r.body for r in canary.received]

    stable, canary = run_loop(act())

    assert 15 < len(canary) < 65
    assert set(stable) == {body_for("m")}
    assert set(canary) == {body_for("m2")}


def test_name_that_stands_in_the_routes_alone_is_listed(tmp_path: Path) -> None:
    async def act() -> tuple[Any, int]:
        path = routes_of(tmp_path, "models: {m: {split: {m1: 1, m2: 0}}, n: {split: {unknown: 1}}}")
        async with routed(FakeEngine(models=("m1",)), FakeEngine(models=("m1",)), routes=path) as router:
            client = await RawClient.connect(router.port)
            client.send(get(b"/v1/models"))
            listed = json.loads((await client.answer()).body)
            client.send(post(CHAT, body_for("m")))
            return listed["data"], (await client.answer()).status

    listed, status = run_loop(act())

    assert [(entry["id"], entry["root"]) for entry in listed] == [("m1", "m1"), ("m", "m1")]
    assert status == 200


def test_shadow_gets_a_copy_and_the_client_nothing_of_it(tmp_path: Path) -> None:
    async def act() -> tuple[Any, list[bytes], Counter[str]]:
        path = routes_of(tmp_path, "models: {m: {shadow: {model: m2}}}")
        one, shadow = FakeEngine(models=("m",), name="one"), FakeEngine(models=("m2",), name="shadow")
        async with routed(one, shadow, routes=path) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, body_for("m")))
            answer = await client.answer()
            await eventually(lambda: router.front.shadows.ended.total() == 1)
            return json.loads(answer.body), [r.body for r in shadow.received], router.front.shadows.ended

    answer, copies, ended = run_loop(act())

    assert answer == {"served_by": "one"}
    assert copies == [body_for("m2")]
    assert ended == {"answered": 1}


def test_shadow_that_hangs_keeps_neither_clients_nor_the_routers_end_waiting(tmp_path: Path) -> None:
    async def act() -> tuple[int, int]:
        path = routes_of(tmp_path, "models: {m: {shadow: {model: m2}}}")
        one, shadow = FakeEngine(models=("m",)), FakeEngine(Stream(["a", "b"]), models=("m2",))
        async with routed(one, shadow, routes=path) as router:
            client = await RawClient.connect(router.port)
            for _ in range(70):
                client.send(post(CHAT, body_for("m")))
                assert (await client.answer()).status == 200
            skipped = router.front.shadows.ended["skipped"]
            await router.stop()
            return skipped, router.replicas.in_flight

    assert run_loop(act()) == (6, 0)


def test_shadow_of_a_silent_engine_ends_as_a_clients_request_would(tmp_path: Path) -> None:
    async def act() -> tuple[Counter[str], int]:
        path = routes_of(tmp_path, "models: {m: {shadow: {model: m2}}}")
        one, shadow = FakeEngine(models=("m",)), FakeEngine(Stream(["a", "b"]), models=("m2",))
        async with routed(one, shadow, routes=path, response_timeout_seconds=2.0) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, body_for("m")))
            await client.answer()
            await eventually(lambda: len(shadow.received) == 1)
            for _ in range(5):
                router.front.sweep()
            await eventually(lambda: not router.front.shadows.in_flight)
            return router.front.shadows.ended, router.replicas.in_flight

    ended, num_in_flight = run_loop(act())

    assert ended.keys() <= {"broken", "refused"}
    assert (ended.total(), num_in_flight) == (1, 0)


def test_copies_that_fail_are_not_sent_again_and_take_no_retry_of_a_clients(tmp_path: Path) -> None:
    async def fail(received: Received, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def act() -> tuple[Counter[str], int, bool]:
        path = routes_of(tmp_path, "models: {m: {shadow: {model: m2}}}")
        one = FakeEngine(models=("m",))
        shadows = [FakeEngine(fail, models=("m2",)) for _ in range(4)]
        async with routed(one, *shadows, routes=path, retry_budget=0.0) as router:
            client = await RawClient.connect(router.port)
            for number in range(40):
                client.send(post(CHAT, body_for("m", str(number))))
                assert (await client.answer()).status == 200
                await eventually(lambda: not router.front.shadows.in_flight)
            budget = router.front._proxy.retry_budget
            num_free = 0
            while budget.take():
                num_free += 1
            num_sent = sum(len(shadow.received) for shadow in shadows)
            return router.front.shadows.ended, num_sent, num_free == budget.RESERVE

    ended, num_sent, is_untouched = run_loop(act())

    assert ended == {"refused": 40}
    assert num_sent == 40
    assert is_untouched


def test_no_canary_is_judged_by_copies(tmp_path: Path) -> None:
    """Of a model that is another's shadow, too: it gets many more of them than of clients' requests."""

    async def fail(received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(json_answer(b"{}", b"500 Oops"))

    async def act() -> int:
        text = "{m: {shadow: {model: v2}}, n: {split: {v1: 9, v2: 1}, rollback: {minRequests: 10}}}"
        path = routes_of(tmp_path, f"models: {text}")
        engines = FakeEngine(models=("m", "v1")), FakeEngine(fail, models=("v2",))
        async with routed(*engines, routes=path) as router:
            client = await RawClient.connect(router.port)
            for number in range(50):
                for model in ("m", "v1"):
                    client.send(post(CHAT, body_for(model, str(number))))
                    assert (await client.answer()).status == 200
            await eventually(lambda: not router.front.shadows.in_flight)
            assert router.front.asking.canaries is not None
            assert router.front.shadows.ended["answered"] > 40
            return router.front.asking.canaries.rolled_back.total()

    assert run_loop(act()) == 0


class Faulty(Routes):
    """What no file can say."""

    def strategy_of(self, model: bytes | None, header: bytes | None) -> str | None:
        raise RuntimeError("a fault")


def test_fault_of_the_routers_own_is_answered_and_costs_no_other_request() -> None:
    async def act() -> tuple[list[int], str, int]:
        async with routed(FakeEngine()) as router:
            client = await RawClient.connect(router.port)
            statuses, code = [], ""
            for routes in (Faulty(strategy="session"), Routes()):
                router.front.asking.use(routes)
                client.send(post(CHAT, b"{}"))
                answer = await client.answer()
                statuses.append(answer.status)
                code = code or json.loads(answer.body)["error"]["code"]
            return statuses, code, router.budget.held_bytes

    assert run_loop(act()) == ([500, 200], "internal_error", 0)


def test_copies_are_of_requests_to_every_model_of_a_split() -> None:
    route = Route(split=((b"v1", 0.5), (b"v2", 0.5)), shadow=b"v3", shadow_ratio=0.5)

    copied = [key for key in (b"%d" % number for number in range(200)) if route.is_shadowed(key)]

    assert {route.variant(key) for key in copied} == {b"v1", b"v2"}
