"""Choosing among replicas."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from fakes_router import Traffic, healthy_replicas
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.discovery.addresses import Address
from hypertier.router.picking import Picker
from hypertier.router.replicas.replicas import State
from hypertier.router.settings import STRATEGIES
from hypertier.router.strategies.roundrobin import RoundRobin

PROMPT = InferenceRequest(num_bytes=600, block_hashes=tuple(range(8)), session=b"s")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_replica_is_picked_twice_for_one_request(strategy: str) -> None:
    picker = Traffic(strategy, 3).picker
    tried = []

    while (choice := picker.pick("ticket", PROMPT, 0.0, tried)) is not None:
        picker.strategy.finished("ticket", 0.0)
        tried.append(choice.replica)

    assert len(tried) == len(set(tried)) == 3


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ejected_replica_is_not_picked(strategy: str) -> None:
    traffic = Traffic(strategy, 3)
    gone = traffic.replicas.healthy[1]

    traffic.replicas.eject(gone, "test")

    assert all(traffic.send(PROMPT).replica is not gone for _ in range(30))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_replica_that_comes_later_is_picked(strategy: str) -> None:
    traffic = Traffic(strategy, 2)
    old = {replica.url: replica.address for replica in traffic.replicas.healthy}

    traffic.replicas.replace([*old.values(), type(traffic.replicas.healthy[0].address)("new", 1)])
    traffic.replicas.admit(traffic.replicas.by_url["http://new:1"])

    picks = Counter(traffic.send(InferenceRequest()).replica.url for _ in range(30))
    assert picks == dict.fromkeys([*old, "http://new:1"], 10)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("in_flight", [True, False], ids=["at-once", "one-by-one"])
def test_requests_without_a_prompt_or_session_are_spread_evenly(strategy: str, in_flight: bool) -> None:
    traffic = Traffic(strategy, 4)

    for _ in range(40):
        traffic.now += 1
        if in_flight:
            traffic.send(InferenceRequest())
        else:
            traffic.serve(InferenceRequest())

    picks = Counter(choice.replica.url for choice in traffic.choices)
    assert picks == {replica.url: 10 for replica in traffic.replicas.healthy}


def test_round_robin_takes_turns() -> None:
    traffic = Traffic("roundrobin", 3)

    urls = [traffic.send(PROMPT).replica.url for _ in range(6)]

    assert len(set(urls[:3])) == 3
    assert urls[:3] == urls[3:]


def test_only_replica_is_said_to_be_the_only_one() -> None:
    assert Traffic("prefixaware", 1).send(PROMPT).reason == "only"


def test_pick_says_how_much_of_the_prompt_is_believed_cached() -> None:
    traffic = Traffic("prefixaware", 2)

    first, second = traffic.serve(PROMPT), traffic.serve(PROMPT)

    assert (first.reason, first.matched_bytes) == ("load", 0)
    assert (second.reason, second.matched_bytes) == ("prefix", 512 + 44)
    assert second.replica is first.replica


def test_replica_that_comes_into_a_fleet_at_work_gets_its_share_bit_by_bit() -> None:
    replicas, (old, new) = healthy_replicas(2)
    picker = Picker(RoundRobin(), replicas, slow_start_seconds=10)
    old.admitted_at -= 100
    replicas.eject(new, "test")
    replicas.admit(new)
    began = new.admitted_at

    shares = []
    for second in (0, 2, 20):
        choices = [picker.pick(n, InferenceRequest(), began + second) for n in range(200)]
        shares.append(sum(choice is not None and choice.replica is new for choice in choices) / 200)

    assert old.state is State.HEALTHY
    assert 0.0 < shares[0] < 0.15
    assert 0.15 < shares[1] < 0.25
    assert shares[2] == 0.5


def test_replicas_that_come_together_wait_for_nobody() -> None:
    replicas, every = healthy_replicas(2)
    picker = Picker(RoundRobin(), replicas, slow_start_seconds=10)
    for replica in every:
        replicas.eject(replica, "test")
    for replica in every:
        replicas.admit(replica)

    choices = [picker.pick(n, InferenceRequest(), every[0].admitted_at) for n in range(100)]

    assert {choice.replica for choice in choices if choice is not None} == set(every)


def test_replica_that_comes_while_all_are_new_waits_for_nobody() -> None:
    replicas, (first, second) = healthy_replicas(2)
    picker = Picker(RoundRobin(), replicas, slow_start_seconds=10)
    first.admitted_at -= 5
    replicas.eject(second, "test")
    replicas.admit(second)

    choices = [picker.pick(n, InferenceRequest(), second.admitted_at) for n in range(100)]

    assert sum(choice is not None and choice.replica is second for choice in choices) == 50


def test_replicas_that_start_slowly_take_all_where_no_other_is_left() -> None:
    replicas, (old, *new) = healthy_replicas(3)
    picker = Picker(RoundRobin(), replicas, slow_start_seconds=10)
    old.admitted_at -= 100
    for replica in new:
        replicas.eject(replica, "test")
        replicas.admit(replica)
    replicas.eject(old, "test")

    choices = [picker.pick(n, InferenceRequest(), new[0].admitted_at) for n in range(100)]

    assert {choice.replica for choice in choices if choice is not None} == set(new)
    assert None not in choices


CHANGES = st.one_of(
    st.tuples(st.sampled_from(("come", "leave", "admit", "eject", "expect", "asked")), st.integers(0, 9)),
    st.tuples(st.just("say"), st.tuples(st.integers(0, 9), st.sets(st.sampled_from("abc"), max_size=2))),
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(changes=st.lists(CHANGES, max_size=40))
def test_whatever_changes_a_request_goes_to_who_serves_its_model_now(
    strategy: str, changes: list[tuple[str, Any]]
) -> None:
    """Who serves a model is kept until something changes; a list of them is looked through each time."""
    traffic = Traffic(strategy, 3)
    for kind, argument in changes:
        change(traffic, kind, argument)
        for model in (b"a", b"b", b"unknown"):
            healthy = traffic.replicas.healthy
            servers = traffic.models.servers(model, healthy)
            assert list(servers) == list(traffic.models.servers(model, list(healthy)))
            assert traffic.models.servers(model, healthy) is servers
            if servers:
                request = InferenceRequest(600, tuple(range(8)), session=b"s", model=model)
                assert traffic.serve(request).replica in servers


def change(traffic: Traffic, kind: str, argument: Any) -> None:
    replicas = traffic.replicas
    listed = [one for one in replicas.by_url.values() if one.state is not State.LEAVING]
    addresses = [one.address for one in listed]
    if kind == "come":
        replicas.replace({*addresses, Address(f"10.0.1.{argument}", 8000)})
    elif listed:
        number, names = argument if kind == "say" else (argument, ())
        replica = listed[number % len(listed)]
        if kind == "leave":
            replicas.replace(address for address in addresses if address is not replica.address)
        elif kind in ("admit", "eject"):
            replicas.admit(replica) if kind == "admit" else replicas.eject(replica, "test")
        elif kind == "say":
            traffic.models.learn(replica, [{"id": name} for name in sorted(names)])
        else:
            getattr(traffic.models, kind)(replica)
