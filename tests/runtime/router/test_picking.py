"""Choosing among replicas."""

from __future__ import annotations

from collections import Counter

import pytest
from fakes_router import healthy_replicas

from hypertier.router.openai import InferenceRequest
from hypertier.router.picking import Picker
from hypertier.router.residency import Residency
from hypertier.router.settings import STRATEGIES
from hypertier.router.strategies import build

PROMPT = InferenceRequest(num_bytes=512, block_hashes=tuple(range(8)), session=b"s")


def picker(strategy: str, num_replicas: int) -> Picker:
    replicas, _ = healthy_replicas(num_replicas)
    residency = Residency(1 << 20)
    return Picker(build(strategy, replicas=replicas, residency=residency), replicas, residency)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_replica_is_picked_twice_for_one_request(strategy: str) -> None:
    one = picker(strategy, 3)
    tried = []

    while (pick := one.pick(PROMPT, tried)) is not None:
        tried.append(pick.replica)

    assert len(tried) == len(set(tried)) == 3


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ejected_replica_is_not_picked(strategy: str) -> None:
    one = picker(strategy, 3)
    gone = one.replicas.healthy[1]

    one.replicas.eject(gone, "test")

    assert all(pick is not None and pick.replica is not gone for pick in (one.pick(PROMPT) for _ in range(9)))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_requests_without_a_prompt_or_session_are_spread_evenly(strategy: str) -> None:
    one = picker(strategy, 4)

    picks = [one.pick(InferenceRequest()) for _ in range(40)]

    assert Counter(pick.replica.url for pick in picks if pick) == {r.url: 10 for r in one.replicas.healthy}


def test_round_robin_takes_turns() -> None:
    one = picker("roundrobin", 3)

    picks = [one.pick(PROMPT) for _ in range(6)]

    urls = [pick.replica.url for pick in picks if pick]
    assert len(set(urls[:3])) == 3
    assert urls[:3] == urls[3:]


def test_pick_says_how_much_of_the_prompt_is_believed_cached() -> None:
    one = picker("prefixaware", 2)
    first = one.pick(PROMPT)

    second = one.pick(PROMPT)

    assert first is not None
    assert second is not None
    assert (first.reason, first.matched_bytes) == ("load", 0)
    assert (second.reason, second.matched_bytes) == ("prefix", 512)
    assert second.replica is first.replica
