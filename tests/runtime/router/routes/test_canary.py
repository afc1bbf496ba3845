"""A model that does worse than the one beside it gets no more, and one that does not is left alone."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
from fakes_engine import FakeEngine, RawClient, Received, json_answer, post, run_loop
from fakes_router import routed
from fakes_streams import Reciter

from hypertier.router.routes.canary import Arm, Canaries, verdict
from hypertier.router.routes.routes import Rollback, Routes, parse

SPLIT = "split: {v1: 90, v2: 10}, rollback: {}"
CHAT = b"/v1/chat/completions"
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()


async def fail(received: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(json_answer(b"{}", b"500 Internal Server Error"))


def arm(num: int, *, failed: int = 0, seconds: float = 0.2, spread: float = 0.5, seed: int = 1) -> Arm:
    draw = random.Random(seed)
    made = Arm()
    for number in range(num):
        is_failed = number < failed
        made.add(
            "5xx" if is_failed else "2xx", None if is_failed else seconds * draw.lognormvariate(0, spread)
        )
    return made


@pytest.mark.parametrize(
    ("canary", "cause"),
    [
        pytest.param(arm(200, seed=2), None, id="alike"),
        pytest.param(arm(200, failed=40), "errors", id="fails"),
        pytest.param(arm(200, failed=6), None, id="fails-as-rarely-as-allowed"),
        pytest.param(arm(40, failed=40), None, id="too-few-to-say"),
        pytest.param(arm(50, failed=50), "errors", id="just-enough-that-all-fail"),
        pytest.param(arm(200, seconds=0.5), "ttft", id="late"),
        pytest.param(arm(200, seconds=0.27), None, id="later-within-what-is-allowed"),
        pytest.param(arm(60, seconds=0.4, spread=3.0), None, id="late-by-chance"),
        pytest.param(arm(200, seconds=0.05), None, id="sooner"),
    ],
)
def test_a_canary_is_judged_by_errors_and_first_bytes_beyond_chance(canary: Arm, cause: str | None) -> None:
    assert verdict(canary, arm(800), Rollback()) == cause


def test_what_fails_as_often_on_both_is_not_the_canary_s_fault() -> None:
    assert verdict(arm(200, failed=100), arm(800, failed=400), Rollback()) is None


def test_only_the_latest_requests_count() -> None:
    canary = arm(20_000)
    for _ in range(300):
        canary.add("broken", None)

    assert verdict(canary, arm(800), Rollback()) == "errors"


def test_clients_that_go_away_and_requests_that_are_wrong_are_nobody_s_fault() -> None:
    canary = arm(100)
    for _ in range(100):
        canary.add("client_closed", None)
        canary.add("4xx", 0.001)

    assert verdict(canary, arm(800), Rollback()) is None
    assert canary.num_timed == pytest.approx(arm(100).num_timed)


@pytest.mark.parametrize("failed_ratio", [0.0, 0.02, 0.3])
def test_two_that_are_alike_are_never_parted_by_chance(failed_ratio: float) -> None:
    limits = Rollback(error_ratio=0.02, ttft_ratio=1.1, min_requests=20)
    for seed in range(20):
        draw = random.Random(seed)
        canary, stable = Arm(), Arm()
        for _ in range(3000):
            one = canary if draw.random() < 0.1 else stable
            one.add("5xx" if draw.random() < failed_ratio else "2xx", draw.lognormvariate(-1, 1))
            assert verdict(canary, stable, limits) is None


class World:
    """Canaries, and the routes that they had used and what they reported."""

    def __init__(self, models: str) -> None:
        self.used: list[Routes] = []
        self.reports: list[str] = []
        self.canaries = Canaries(use=self.used.append, report=self.reports.append)
        self.says(models)

    def says(self, models: str) -> None:
        self.canaries.follow(parse(f"models: {{{models}}}".encode(), has_kvaware=False))

    def serve(self, num: int, **status: str) -> None:
        for _ in range(num):
            for model, each in status.items():
                self.canaries.ended(model.encode(), each, 0.1)

    def split(self, name: str) -> dict[bytes, float]:
        shares: dict[bytes, float] = {}
        for model, share in self.used[-1].models[name.encode()].split:
            shares[model] = shares.get(model, 0.0) + share
        return shares


def test_the_share_of_one_that_fails_goes_to_the_largest_and_it_is_told_once() -> None:
    world = World("m: {split: {v1: 80, v2: 10, v3: 10}, rollback: {}}, n: {split: {v2: 1, v1: 1}}")
    before = world.used[-1].models[b"m"]
    keys = [b"%d" % number for number in range(500)]

    world.serve(60, v1="2xx", v2="5xx", v3="2xx")

    after = world.used[-1].models[b"m"]
    assert world.split("m") == pytest.approx({b"v1": 0.9, b"v3": 0.1})
    assert world.split("n") == pytest.approx({b"v1": 0.5, b"v2": 0.5})
    moved = {before.variant(key) for key in keys if before.variant(key) != after.variant(key)}
    assert moved == {b"v2"}
    assert world.canaries.rolled_back == {("m", "v2", "errors"): 1}
    assert len(world.reports) == 1
    assert "v2 gets no more requests for m (errors): 100.0 %" in world.reports[0]


def test_it_stays_out_until_the_file_says_something_else_of_that_name() -> None:
    world = World(f"m: {{{SPLIT}}}")
    world.serve(60, v1="2xx", v2="5xx")

    world.says(f"m: {{{SPLIT}}}, other: {{strategy: session}}")
    same = world.split("m")
    world.says("m: {split: {v1: 90, v2: 11}, rollback: {}}")
    changed = set(world.split("m"))
    world.serve(60, v1="2xx", v2="2xx")

    assert same == {b"v1": 1.0}
    assert changed == set(world.split("m")) == {b"v1", b"v2"}


def test_without_rollback_nothing_is_judged() -> None:
    world = World("m: {split: {v1: 90, v2: 10}}")

    world.serve(500, v1="2xx", v2="5xx")

    assert set(world.split("m")) == {b"v1", b"v2"}
    assert not world.reports


@pytest.mark.parametrize("is_served", [True, False], ids=["fails", "served-by-nobody"])
def test_a_router_stops_asking_a_canary_that_fails(is_served: bool, tmp_path: Path) -> None:
    """Where its engine answers 500, clients see it until enough of them did; where it has none, never."""

    async def act() -> tuple[list[int], str]:
        path = tmp_path / "routes.yaml"
        path.write_text("models: {m: {split: {m: 60, m2: 40}, rollback: {minRequests: 10}}}")
        engines = [FakeEngine(models=("m",))]
        if is_served:
            engines.append(FakeEngine(models=("m2",), answer=fail))
        async with routed(*engines, routes=str(path)) as router:
            client = await RawClient.connect(router.port)
            statuses = []
            for number in range(300):
                client.send(post(CHAT, BODY, b"x-request-id: %d" % number))
                statuses.append((await client.answer()).status)
            return statuses, router.metrics.text().decode()

    statuses, page = run_loop(act())

    failed = [number for number, status in enumerate(statuses) if status != 200]
    assert 10 <= len(failed) < 40 if is_served else not failed
    assert set(statuses[100:]) == {200}
    assert 'hypertier_router_canary_rollbacks_total{canary="m2",cause="errors",model="m"} 1.0' in page


class BreaksOff(Reciter):
    """Each chat breaks off in it; the rest of another's is written to its end."""

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.num_pieces = 3 if request.line.startswith(b"POST " + CHAT) else None
        await super().__call__(request, writer)


def test_a_canary_whose_streams_break_off_is_to_blame_though_clients_see_none_of_it(tmp_path: Path) -> None:
    asked = json.loads(BODY) | {"stream": True, "max_tokens": 1000, "temperature": 0}

    async def act() -> tuple[list[bool], str]:
        path = tmp_path / "routes.yaml"
        path.write_text("models: {m: {split: {m: 60, m2: 40}, rollback: {minRequests: 10}}}")
        engines = [FakeEngine(Reciter(), models=("m",))]
        engines += [FakeEngine(BreaksOff(), models=("m2",)) for _ in range(9)]  # none fails five in a row
        async with routed(*engines, routes=str(path), migration_limit=1) as router:
            client = await RawClient.connect(router.port)
            wholes = []
            for number in range(60):
                client.send(post(CHAT, json.dumps(asked).encode(), b"x-session-id: %d" % number))
                wholes.append((await client.answer()).is_whole)
            return wholes, router.metrics.text().decode()

    wholes, page = run_loop(act())

    assert all(wholes)
    assert 'hypertier_router_canary_rollbacks_total{canary="m2",cause="errors",model="m"} 1.0' in page


class Unsteady:
    """Of one model's engines: whichever is asked first answers each second request with 503."""

    def __init__(self) -> None:
        self.asked: set[bytes] = set()

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        fails = request.body not in self.asked and len(self.asked) % 2 == 1
        self.asked.add(request.body)
        writer.write(json_answer(b"{}", b"503 Service Unavailable" if fails else b"200 OK"))


@pytest.mark.parametrize("is_both", [False, True], ids=["the canary alone", "both models"])
def test_a_canary_whose_replicas_fail_before_others_answer_is_to_blame(is_both: bool, tmp_path: Path) -> None:
    async def act() -> tuple[list[int], float, str]:
        path = tmp_path / "routes.yaml"
        path.write_text("models: {m: {split: {m: 60, m2: 40}, rollback: {minRequests: 10}}}")
        canary, stable = Unsteady(), Unsteady() if is_both else None
        engines = [FakeEngine(canary, models=("m2",)) for _ in range(4)]
        engines += [FakeEngine(stable, models=("m",)) for _ in range(4)]
        async with routed(*engines, routes=str(path), strategy="roundrobin") as router:
            client = await RawClient.connect(router.port)
            statuses = []
            for number in range(200):
                body = json.dumps(json.loads(BODY) | {"user": str(number)}).encode()
                client.send(post(CHAT, body, b"x-session-id: %d" % number))
                statuses.append((await client.answer()).status)
            return statuses, sum(router.metrics.counts.retries.values()), router.metrics.text().decode()

    statuses, num_retries, page = run_loop(act())

    assert num_retries > 5
    assert set(statuses) == {200}
    is_out = 'hypertier_router_canary_rollbacks_total{canary="m2",cause="errors",model="m"} 1.0' in page
    assert is_out != is_both


def test_to_ask_where_a_request_would_go_is_no_request(tmp_path: Path) -> None:
    async def act() -> tuple[set[str], int]:
        path = tmp_path / "routes.yaml"
        path.write_text("models: {m: {split: {m1: 6, m2: 4}, rollback: {minRequests: 10}}}")
        async with routed(FakeEngine(models=("m1",)), routes=str(path), metrics_port=0) as router:
            client, admin = [await RawClient.connect(port) for port in (router.port, router.metrics_port)]
            reasons = set()
            for number in range(50):
                body = BODY.replace(b"Hi", b"%d " % number * 1000)
                client.send(post(CHAT, body.replace(b'"m"', b'"m1"')))
                await client.answer()
                admin.send(post(b"/explain?path=" + CHAT, body))
                reasons.add(json.loads((await admin.answer()).body)["reason"])
            assert router.front.asking.canaries is not None
            return reasons, router.front.asking.canaries.rolled_back.total()

    assert run_loop(act()) == ({"turn"}, 0)


@pytest.mark.parametrize(
    ("split", "served", "expected"),
    [
        ("{m: 1, m2: 1}", ("m",), "m"),
        ("{m1: 1, m2: 1}", ("m",), "m"),
        ("{m1: 1, m2: 2, m3: 3}", ("m2", "m"), "m2"),
    ],
    ids=["the-main-model", "the-names-own", "the-largest-that-is-served"],
)
def test_a_model_of_a_split_that_nobody_serves_is_answered_for_and_counted(
    split: str, served: tuple[str, ...], expected: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act() -> tuple[set[int], set[str], str]:
        path = tmp_path / "routes.yaml"
        path.write_text(f"models: {{m: {{split: {split}}}}}")
        engine = FakeEngine(models=served)
        async with routed(engine, routes=str(path)) as router:
            client = await RawClient.connect(router.port)
            statuses = set()
            for number in range(20):
                client.send(post(CHAT, BODY, b"x-request-id: %d" % number))
                statuses.add((await client.answer()).status)
            asked = {json.loads(request.body)["model"] for request in engine.received}
            return statuses, asked, router.metrics.text().decode()

    statuses, asked, page = run_loop(act())

    assert (statuses, asked) == ({200}, {expected})
    assert "hypertier_router_split_fallbacks_total{" in page
    said = [record.getMessage() for record in caplog.records if "of the split of m" in record.getMessage()]
    assert len(said) == len(set(said)) > 0


def test_clients_that_go_away_say_nothing_of_a_model() -> None:
    arm = Arm()

    arm.add("client_closed", None)

    assert (arm.num_ended, arm.num) == (0, 0.0)


def test_a_file_that_says_the_same_of_a_name_forgets_nothing_of_it() -> None:
    text = b"models: {m: {split: {stable: 95, canary: 5}, rollback: {}}}"
    canaries = Canaries(use=lambda _: None, report=lambda _: None)

    for strategy in (b"session", b"prefixaware"):
        canaries.follow(parse(text + b"\nstrategy: " + strategy, has_kvaware=False))
        for _ in range(Rollback().min_requests - 1):
            canaries.ended(b"stable", "2xx", 0.1)
            canaries.ended(b"canary", "5xx")

    assert canaries.out == {b"m": {b"canary"}}
