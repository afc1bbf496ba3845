"""Who is taken out for what became of requests, and how many may be tried again."""

from __future__ import annotations

import asyncio

import pytest
from fakes_engine import FakeEngine, RawClient, Received, eventually, json_answer, post, run_loop
from fakes_router import routed
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.discovery.addresses import Address
from hypertier.router.replicas.models import Models
from hypertier.router.replicas.outliers import (
    BAR_SECONDS,
    FAILURES_IN_A_ROW,
    MAX_BAR_SECONDS,
    Outliers,
    RetryBudget,
)
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State

CHAT = b"/v1/chat/completions"


class Waiting:
    """A request that waits for its first token."""

    streamed = True
    left = False

    def leave(self) -> None:
        """It goes elsewhere."""
        self.left = True


class World:
    """Replicas under a clock that a test moves; health checks are always good."""

    def __init__(self, count: int = 4, stall_seconds: float = 60.0) -> None:
        self.now = 1000.0
        self.replicas = ReplicaSet(lambda: self.now)
        self.models = Models(self.replicas)
        self.outliers = Outliers(
            self.replicas,
            stall_seconds=stall_seconds,
            now=lambda: self.now,
            groups=self.models.groups_of,
        )
        self.replicas.replace(Address(f"10.0.0.{number}", 8000) for number in range(count))
        self.all = list(self.replicas.by_url.values())
        self.check()

    def check(self) -> None:
        """A round of health checks."""
        for replica in self.all:
            self.replicas.admit(replica)

    def fail(self, replica: Replica, times: int = FAILURES_IN_A_ROW, status: int = 0) -> None:
        """So many requests fail there."""
        for _ in range(times):
            self.outliers.failed(replica, status)

    def later(self, seconds: float) -> None:
        """Time passes, and health is checked at its end."""
        self.now += seconds
        self.check()


def test_replica_that_fails_again_and_again_is_out_whatever_its_health_says() -> None:
    world = World()

    world.fail(world.all[0])
    world.check()

    assert world.all[0].state is State.EJECTED


def test_success_in_between_forgives() -> None:
    world = World()

    for _ in range(5):
        world.fail(world.all[0], FAILURES_IN_A_ROW - 1)
        world.outliers.succeeded(world.all[0])

    assert world.all[0].state is State.HEALTHY


@pytest.mark.parametrize("status", [400, 404, 413, 422, 429, 499, 503])
def test_what_a_client_or_an_overload_causes_is_no_failure(status: int) -> None:
    world = World()

    world.fail(world.all[0], 1000, status)

    assert world.all[0].state is State.HEALTHY


@pytest.mark.parametrize("status", [500, 502, 504])
def test_engine_that_answers_errors_alone_is_out(status: int) -> None:
    world = World()

    world.fail(world.all[0], status=status)

    assert world.all[0].state is State.EJECTED


def test_probation_ends_with_a_success_and_another_failure_doubles_the_time() -> None:
    world = World()
    world.fail(world.all[0])
    world.later(BAR_SECONDS)
    back = world.all[0].state

    world.fail(world.all[0], 1)
    world.later(BAR_SECONDS)
    after_one_bar = world.all[0].state
    world.later(BAR_SECONDS)
    after_two_bars = world.all[0].state
    world.outliers.succeeded(world.all[0])
    world.fail(world.all[0], FAILURES_IN_A_ROW - 1)

    assert (back, after_one_bar, after_two_bars) == (State.HEALTHY, State.EJECTED, State.HEALTHY)
    assert world.all[0].state is State.HEALTHY


def test_replica_that_did_well_for_long_is_out_for_no_longer_than_a_new_one() -> None:
    world = World()
    world.fail(world.all[0])
    world.later(BAR_SECONDS)
    world.fail(world.all[0], 1)
    world.later(2 * BAR_SECONDS)

    world.later(BAR_SECONDS + 1)
    world.outliers.succeeded(world.all[0])
    world.fail(world.all[0])
    world.later(BAR_SECONDS)

    assert world.all[0].state is State.HEALTHY


def test_no_replica_is_out_for_longer_than_the_longest_time() -> None:
    world = World()

    for _ in range(20):
        world.fail(world.all[0])
        world.later(MAX_BAR_SECONDS)

        assert world.all[0].state is State.HEALTHY


def test_half_stays_however_all_fail() -> None:
    world = World(count=4)

    for replica in world.all * 3:
        world.fail(replica)

    assert len(world.replicas.healthy) == 2
    assert world.outliers.num_withheld > 0


@pytest.mark.parametrize("count", [1, 2])
def test_last_one_stays(count: int) -> None:
    world = World(count=count)

    for replica in world.all * 3:
        world.fail(replica)

    assert len(world.replicas.healthy) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0, 500, 200, 429])), max_size=200))
def test_no_history_empties_the_choice(steps: list[tuple[int, int]]) -> None:
    world = World(count=6)

    for number, status in steps:
        if status == 200:
            world.outliers.succeeded(world.all[number])
        else:
            world.outliers.failed(world.all[number], status)
        world.now += 0.1

    assert len(world.replicas.healthy) >= 3


MODELS = st.lists(st.sets(st.sampled_from("abc"), min_size=1), min_size=2, max_size=8)


@given(MODELS, st.lists(st.integers(0, 7), max_size=60))
def test_no_history_leaves_a_model_without_half_of_its_replicas(
    served: list[set[str]], failing: list[int]
) -> None:
    """A prompt that breaks the one engine of a model, sent by one client, closes that model for nobody."""
    world = World(count=len(served))
    for replica, models in zip(world.all, served, strict=True):
        entries = [{"id": model} for model in sorted(models)]
        world.models.learn(replica, [*entries, {"id": f"own-{replica.url}", "parent": "a"}])

    for number in failing:
        world.fail(world.all[number % len(served)])

    for model in "abc":
        serving = [r for r, models in zip(world.all, served, strict=True) if model in models]
        healthy = [replica for replica in serving if replica.state is State.HEALTHY]
        assert len(healthy) >= min(len(serving), max(1, len(serving) / 2))


def test_replicas_of_other_models_do_not_keep_a_failing_one() -> None:
    world = World(count=6)
    for number, replica in enumerate(world.all):
        world.models.learn(replica, [{"id": "few" if number < 3 else "others"}])
    for replica in world.all[3:]:
        world.replicas.eject(replica, "health_refused")

    world.fail(world.all[0])

    assert world.all[0].state is State.EJECTED


def test_healthy_replica_without_tokens_is_out_and_what_waits_there_leaves() -> None:
    world = World(stall_seconds=60)
    waiting = [Waiting(), Waiting()]
    world.all[0].waiting.update(waiting)
    world.all[1].waiting.update([Waiting(), Waiting()])

    for _ in range(63):
        world.outliers.sweep({world.all[1]})
        world.later(1)

    assert world.all[0].state is State.EJECTED
    assert all(request.left for request in waiting)
    assert world.all[1].state is State.HEALTHY


def test_one_long_prompt_is_waited_for() -> None:
    world = World(stall_seconds=60)
    world.all[0].waiting.add(Waiting())

    for _ in range(200):
        world.outliers.sweep(set())
        world.later(1)

        assert world.all[0].state is State.HEALTHY


def test_retries_are_a_share_of_requests_and_some_are_free() -> None:
    budget = RetryBudget(0.2)
    for _ in range(1000):
        budget.request()

    taken = sum(budget.take() for _ in range(1000))

    assert taken == 200 + budget.RESERVE
    assert budget.num_refused == 1000 - taken


def test_requests_of_long_ago_pay_for_no_retries() -> None:
    budget = RetryBudget(0.2)
    for _ in range(10_000):
        budget.request()

    for _ in range(200):
        budget.tick()

    assert sum(budget.take() for _ in range(1000)) == budget.RESERVE


def test_retries_come_back_with_time() -> None:
    budget = RetryBudget(0.0)
    while budget.take():
        pass

    for _ in range(10):
        budget.tick()

    assert budget.take()


def test_client_with_bad_requests_closes_the_way_for_nobody() -> None:
    async def refuse(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(json_answer(b"{}", b"400 Bad Request"))

    async def act() -> tuple[set[int], int]:
        async with routed(FakeEngine(refuse), FakeEngine(refuse)) as router:
            client = await RawClient.connect(router.port)
            statuses = set()
            for _ in range(50):
                client.send(post(CHAT, b"{}"))
                statuses.add((await client.answer()).status)
            return statuses, len(router.replicas.healthy)

    assert run_loop(act()) == ({400}, 2)


def test_requests_go_round_an_engine_that_breaks_while_it_says_it_is_well() -> None:
    async def act() -> tuple[set[int], int]:
        async def reset(request: Received, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        broken, others = FakeEngine(reset), [FakeEngine(), FakeEngine()]
        async with routed(broken, *others, health_interval_seconds=0.02) as router:
            client = await RawClient.connect(router.port)
            statuses = set()
            for _ in range(60):
                client.send(post(CHAT, b"{}"))
                statuses.add((await client.answer()).status)
            return statuses, len(broken.received)

    assert run_loop(act()) == ({200}, FAILURES_IN_A_ROW)


def _never(begun: list[int]) -> FakeEngine:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        begun.append(1)
        await asyncio.Event().wait()

    return FakeEngine(answer)


def test_deadline_of_a_request_ends_it_and_the_engines_work() -> None:
    async def act() -> tuple[int, bytes | None]:
        engine = _never([])
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}", b"x-request-timeout: 0.05"))
            status = (await client.answer()).status
            await eventually(lambda: engine.num_disconnects == 1)
            return status, engine.received[0].header(b"x-request-timeout")

    assert run_loop(act()) == (504, b"0.05")


@pytest.mark.parametrize("value", [b"0", b"-1", b"nan", b"soon", b"1e9", b"inf"])
def test_deadline_that_makes_no_sense_is_refused(value: bytes) -> None:
    async def act() -> tuple[int, int]:
        engine = FakeEngine()
        async with routed(engine) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}", b"x-request-timeout: " + value))
            return (await client.answer()).status, len(engine.received)

    assert run_loop(act()) == (400, 0)
