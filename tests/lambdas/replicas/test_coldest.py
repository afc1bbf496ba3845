"""Which pods are marked to go: the coldest, by figures alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier_lambdas.replicas.coldest import DELETION_COST, WORTH, Choice, Pod, choose, read_pods

INT32 = range(-(2**31), 2**31)


def pod(name: str, **fields: Any) -> Pod:
    """A ready one, each on a node of its own and as old as the others."""
    values = {"ip": f"ip-{name}", "node": f"n-{name}", "created_at": "2026-11-01", "is_ready": True}
    return Pod(name, **values | fields)


def worth(**tokens: float) -> dict[str, float]:
    return {f"ip-{name}": value for name, value in tokens.items()}


def test_the_replica_that_is_worth_least_is_marked_and_no_other() -> None:
    choice = choose([pod("a"), pod("b"), pod("c")], worth(a=900.0, b=20.4, c=500.0), 2)

    assert choice == Choice({"b": {DELETION_COST: "-1", WORTH: "20"}}, ("b",))


def test_of_several_that_go_the_coldest_costs_least() -> None:
    choice = choose([pod("a"), pod("b"), pod("c")], worth(a=900.0, b=20.0, c=500.0), 1)

    assert {name: patch[DELETION_COST] for name, patch in choice.patches.items()} == {"b": "-2", "c": "-1"}
    assert choice.going == ("b", "c")


def test_a_pod_that_is_not_ready_goes_anyhow_and_counts() -> None:
    pods = [pod("a"), pod("b"), pod("starts", is_ready=False)]

    assert choose(pods, worth(a=1.0, b=2.0), 2) == Choice()
    assert choose(pods, worth(a=1.0, b=2.0), 1).going == ("a",)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(
            [pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n2")], "c", id="shares a node"
        ),
        pytest.param([pod("a"), pod("b", created_at="2026-11-02"), pod("c")], "b", id="the youngest"),
        pytest.param([pod("a"), pod("b"), pod("c")], "c", id="nothing tells them apart"),
    ],
)
def test_of_those_that_are_worth_the_same_the_one_goes_that_kubernetes_would_take(
    pods: list[Pod], expected: str
) -> None:
    assert choose(pods, worth(a=5.0, b=5.0, c=5.0), 2).going == (expected,)


def test_a_replica_without_a_fresh_figure_leaves_the_choice_to_kubernetes() -> None:
    choice = choose([pod("a"), pod("b"), pod("c")], worth(a=900.0, c=500.0), 2)

    assert choice.unknown == "1 of 3 replicas, such as b, have no fresh WarmTokens"
    assert (choice.patches, choice.going) == ({}, ())


@pytest.mark.parametrize("figures", [worth(a=1.0, b=2.0, c=3.0), {}], ids=["known", "unknown"])
def test_a_mark_of_an_earlier_step_that_was_not_made_is_taken_away(figures: dict[str, float]) -> None:
    pods = [pod("a"), pod("b"), pod("c", cost="-1", worth="0")]

    choice = choose(pods, figures, 2)

    assert choice.patches["c"] == {DELETION_COST: None, WORTH: None}


def test_a_mark_that_stands_already_is_not_written_again() -> None:
    pods = [pod("a", cost="-1", worth="1"), pod("b")]

    assert choose(pods, worth(a=1.0, b=2.0), 1) == Choice({}, ("a",))


def test_costs_that_somebody_else_wrote_are_left_alone() -> None:
    pods = [pod("a"), pod("b", cost="100"), pod("c", cost="-1", worth="0")]

    choice = choose(pods, worth(a=1.0, b=2.0, c=3.0), 2)

    assert choice.unknown == f"b has a {DELETION_COST} that somebody else wrote"
    assert choice.patches == {}


def test_pods_that_end_or_have_ended_are_none() -> None:
    item = {"metadata": {"name": "a"}, "status": {"phase": "Running"}}
    ends = {"metadata": {"name": "b", "deletionTimestamp": "2026-12-01T00:00:00Z"}, "status": {}}
    failed = {"metadata": {"name": "c"}, "status": {"phase": "Failed"}}

    assert read_pods([item, ends, failed]) == [Pod("a")]


@given(
    st.lists(
        st.tuples(st.floats(0, 1e18), st.booleans(), st.sampled_from(["n1", "n2"])), min_size=1, max_size=8
    ),
    st.integers(1, 8),
)
def test_none_that_stays_is_colder_than_one_that_goes(
    facts: list[tuple[float, bool, str]], replicas: int
) -> None:
    pods = [pod(str(i), is_ready=ready, node=node) for i, (_, ready, node) in enumerate(facts)]
    figures = {f"ip-{i}": tokens for i, (tokens, _, _) in enumerate(facts)}

    choice = choose(pods, figures, replicas)

    num_ready = sum(found.is_ready for found in pods)
    stay = [figures[found.ip] for found in pods if found.is_ready and found.name not in choice.going]
    assert len(choice.going) == max(0, num_ready - replicas)
    assert all(figures[f"ip-{name}"] <= min(stay, default=1e18) for name in choice.going)
    costs = [int(patch[DELETION_COST] or "") for patch in choice.patches.values()]
    assert len(set(costs)) == len(costs)
    assert all(cost in INT32 and cost < 0 for cost in costs)
