"""Comparisons by an endpoint that obeys, one that does not, and one that fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from fakes_endpoint import FakeEndpoint, fake_endpoint

from hypertier.comparison.compare import (
    Comparison,
    Plan,
    Report,
    Run,
    cached_ratio,
    figures,
    in_turn,
    largest_share,
)
from hypertier.errors import AnswerError, ConfigError
from hypertier.verification.answer import Answer
from hypertier.verification.endpoint import Endpoint
from hypertier.workload import Workload

WORKLOAD = Workload(requests=6, concurrency=2, prefixes=2, prompt_tokens=64, max_tokens=3, seed=7)
PLAN = Plan(strategies=("roundrobin", "prefixaware"), rounds=3, workload=WORKLOAD, timeout_seconds=30)
ANSWER = Answer("a", "session", 100, 40, (" x",), ({},), 0.25)


def compare(state: FakeEndpoint, plan: Plan = PLAN) -> Report:
    with fake_endpoint(state):
        return Comparison(Endpoint(state.url), plan).run()


def sent_by(state: FakeEndpoint, strategy: str) -> list[Mapping[str, Any]]:
    """Bodies of the load; the probes ask for one token."""
    return [
        body
        for headers, body in state.received
        if headers["x-hypertier-strategy"] == strategy and body["max_tokens"] == 3
    ]


def test_every_strategy_gets_the_same_load_with_documents_of_its_own() -> None:
    state = FakeEndpoint()

    compare(state)

    by_turns, by_prefix = sent_by(state, "roundrobin"), sent_by(state, "prefixaware")
    assert len(by_turns) == len(by_prefix) == 3 * 6
    documents = [Counter(body["prompt"][:60] for body in bodies) for bodies in (by_turns, by_prefix)]
    assert [sorted(each.values()) for each in documents] == [[3] * 6] * 2
    assert not documents[0].keys() & documents[1].keys()
    assert not any("logprobs" in body for body in (*by_turns, *by_prefix))


def test_the_report_has_medians_shares_and_ratios_to_the_first_strategy() -> None:
    report = compare(FakeEndpoint())

    base, other = report.figures
    assert (base.strategy, other.strategy, report.model) == ("roundrobin", "prefixaware", "m")
    assert (base.ratios, set(other.ratios)) == ({}, {"ttft_p50", "ttft_p90"})
    assert (base.largest_share, other.largest_share) == (pytest.approx(0.5, abs=0.1), 1.0)
    assert (base.num_failed, other.num_failed, report.failures) == (0, 0, ())


@pytest.mark.parametrize("strategies", [("roundrobin", "prefixaware"), ("prefixaware", "kvaware")])
def test_a_router_that_does_not_obey_is_found_out_before_the_load(strategies: tuple[str, ...]) -> None:
    state = FakeEndpoint(by_header="kvaware" in strategies)

    with pytest.raises(AnswerError, match="the router chose by its own strategy") as caught:
        compare(state, replace(PLAN, strategies=strategies))

    assert "strategyByHeader" in caught.value.to_do
    assert len(state.received) <= len(strategies)


def test_prompts_that_the_model_does_not_take_are_refused_before_the_load() -> None:
    state = FakeEndpoint(max_model_len=66)

    with pytest.raises(ConfigError, match=r"--prompt-tokens is 64; expected 64 to 63: with --max-tokens 3"):
        compare(state)

    assert state.received == []


def test_a_round_without_an_answer_ends_the_comparison() -> None:
    with pytest.raises(AnswerError, match="the answer broke off"):
        compare(FakeEndpoint(cut_after=1))


def test_requests_that_failed_are_counted_and_told() -> None:
    runs = [Run("session", (ANSWER,), ("it answers 429",), 1.0), Run("session", (ANSWER,) * 2, (), 2.0)]

    found = figures("session", [*runs, *runs], [*runs, *runs])

    assert (found.num_failed, found.requests_per_second) == (2, 1.0)


def test_a_share_that_nobody_tells_is_not_told() -> None:
    untold = replace(ANSWER, cached_tokens=None, replica=None)

    assert cached_ratio(Run("session", (untold,), (), 1.0)) is None
    assert cached_ratio(Run("session", (untold, ANSWER), (), 1.0)) == 0.4
    assert (largest_share(["a", None]), largest_share(["a", "b", "a", "a"])) == (None, 0.75)


def test_each_strategy_comes_first_as_often_as_the_others() -> None:
    names = ("a", "b", "c")

    assert [tuple(in_turn(names, round_)) for round_ in range(3)] == [
        ("a", "b", "c"),
        ("b", "c", "a"),
        ("c", "a", "b"),
    ]
