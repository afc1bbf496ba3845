from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import fields, replace
from types import ModuleType
from typing import Any

import pytest

from hypertier.router.kv import holders
from hypertier.router.strategies import loads, prefill_times, scoring
from hypertier.simulation import peers, policy, scored
from hypertier.simulation.catalog import SCORING
from hypertier.simulation.catalog import policy as policy_of
from hypertier.simulation.cluster import SHARE_SECONDS, ClusterSpec, simulate
from hypertier.simulation.engine import EngineProfile
from hypertier.simulation.peers import PEERS, RoundRobin
from hypertier.simulation.policy import Prompt, World
from hypertier.simulation.trace import TracedRequest, with_load
from hypertier.simulation.workloads import WORKLOADS

PROFILE = EngineProfile()
NAMES = ("roundrobin", "prefixaware", "session", SCORING, *PEERS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("events", [False, True], ids=["by history", "by KV events"])
def test_every_policy_answers_everything_and_keeps_its_counts(name: str, events: bool) -> None:
    trace = with_load(WORKLOADS["agent"](1, 300), 4, PROFILE.prefill_seconds)
    built: list[Any] = []

    def build(world: World) -> Any:
        built.append(policy_of(name)(world))
        return built[-1]

    outcome = simulate(trace, ClusterSpec(4, PROFILE, num_routers=2, events=events), build)

    assert all(job.first_token_at > job.request.at for job in outcome.jobs)
    assert {job.router for job in outcome.jobs} == {0, 1}
    assert all(0 <= job.replica < 4 for job in outcome.jobs)
    for router in built:
        assert not any(getattr(router, "in_flight", ()))
        assert not any(getattr(router, "prefill", ()))


def test_the_same_seed_gives_the_same_outcome() -> None:
    trace = WORKLOADS["conversation"](1, 200)

    def outcome(seed: int) -> list[tuple[int, float]]:
        done = simulate(trace, ClusterSpec(4, PROFILE), PEERS["llm-d"], seed)
        return [(job.replica, job.first_token_at) for job in done.jobs]

    assert outcome(1) == outcome(1)
    assert outcome(1) != outcome(2)


class Listening(RoundRobin):
    """Writes down what it is told, and when."""

    def __init__(self, world: World, *, shares: bool = False) -> None:
        super().__init__(world)
        self.shares = shares
        self.told: list[tuple[str, int, float]] = []
        self.held: set[tuple[int, int]] = set()

    def sent(self, prompt: Prompt, replica: int, now: float) -> None:
        super().sent(prompt, replica, now)
        self.told.append(("sent", prompt.number, now))

    def first_token(self, prompt: Prompt, replica: int, now: float) -> None:
        self.told.append(("first token", prompt.number, now))

    def finished(self, prompt: Prompt, replica: int, now: float) -> None:
        super().finished(prompt, replica, now)
        self.told.append(("finished", prompt.number, now))

    def stored(self, replica: int, blocks: Sequence[int]) -> None:
        self.held |= {(replica, block) for block in blocks}

    def removed(self, replica: int, blocks: Sequence[int]) -> None:
        assert self.held >= {(replica, block) for block in blocks}
        self.held -= {(replica, block) for block in blocks}


def test_a_router_hears_of_its_own_at_once_and_of_its_siblings_a_moment_later() -> None:
    trace = [TracedRequest(1.0, 600, 20, (1, 2)), TracedRequest(1.5, 600, 20, (3, 4))]
    built: list[Listening] = []

    def build(world: World) -> Listening:
        built.append(Listening(world, shares=True))
        return built[-1]

    outcome = simulate(trace, ClusterSpec(2, PROFILE, num_routers=2), build)

    job = outcome.jobs[0]
    own, sibling = built[job.router], built[1 - job.router]
    mine = [(what, at) for what, number, at in own.told if number == 0]
    theirs = [(what, at) for what, number, at in sibling.told if number == 0]
    assert [what for what, _ in mine] == ["sent", "first token", "finished"]
    assert mine[:2] == [("sent", 1.0), ("first token", job.first_token_at)]
    assert theirs == [(what, pytest.approx(at + SHARE_SECONDS)) for what, at in mine]


def test_kv_events_say_what_caches_hold() -> None:
    built: list[Listening] = []

    def build(world: World) -> Listening:
        built.append(Listening(world))
        return built[-1]

    simulate(WORKLOADS["document"](1, 200), ClusterSpec(2, PROFILE, events=True), build)

    capacity = PROFILE.cache_tokens // 512
    assert built[0].held
    assert all(sum(r == replica for r, _ in built[0].held) <= capacity for replica in range(2))


def test_without_events_nothing_is_heard_of_caches() -> None:
    built: list[Listening] = []

    def build(world: World) -> Listening:
        built.append(Listening(world))
        return built[-1]

    simulate(WORKLOADS["document"](1, 50), ClusterSpec(2, PROFILE), build)

    assert built[0].held == set()


@pytest.mark.parametrize(
    "module", [holders, loads, prefill_times, scoring, scored, peers, policy], ids=lambda m: m.__name__
)
def test_what_decides_imports_nothing_of_the_simulated_engines(module: ModuleType) -> None:
    imported = {
        node.module
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom)
    }

    assert not imported & {"hypertier.simulation.engine", "hypertier.simulation.cluster"}


def test_what_decides_is_shown_no_answer_that_is_to_come() -> None:
    assert {field.name for field in fields(Prompt)} == {"number", "tokens", "blocks", "session"}


@pytest.mark.parametrize("name", NAMES)
def test_before_anything_is_seen_no_choice_depends_on_how_fast_engines_are(name: str) -> None:
    at_once = [replace(request, at=0.0) for request in WORKLOADS["conversation"](1, 60)]
    slower = [replace(request, output_tokens=5 * request.output_tokens) for request in at_once]
    slow = EngineProfile(tokens_per_second=500.0, attention_tokens=1000.0, overhead_seconds=1.0)

    def replicas(trace: list[TracedRequest], profile: EngineProfile) -> list[int]:
        outcome = simulate(trace, ClusterSpec(4, profile), policy_of(name))
        return [job.replica for job in outcome.jobs]

    assert replicas(at_once, PROFILE) == replicas(slower, slow)
