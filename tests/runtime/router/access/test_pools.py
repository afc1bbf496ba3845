"""Pools of models that share engines, under whatever replicas, routes and requests do."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from typing import Any

import pytest
from fakes_pools import PER_REPLICA, World
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.router.access.gate import _Lease
from hypertier.router.access.pool import Pool
from hypertier.router.access.pools import components
from hypertier.router.admission import Grant


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], []),
        (["a", "b"], ["a", "b"]),
        (["ab", "b", "c"], ["ab", "c"]),
        (["ab", "cd", "ef", "fa"], ["abef", "cd"]),
        (["a", "b", "c", "abc"], ["abc"]),
        (["", "a"], ["a"]),
    ],
    ids=["none", "apart", "shared", "over others", "a split", "serves nothing"],
)
def test_names_are_together_that_share_a_group_or_groups_that_do(
    groups: list[str], expected: list[str]
) -> None:
    named: list[Collection[bytes]] = [[letter.encode() for letter in group] for group in groups]

    found = components(named)

    assert sorted("".join(sorted(name.decode() for name in names)) for names in found) == expected


def test_a_flood_for_one_model_holds_up_no_other() -> None:
    world = World()
    world.come("a")
    world.come("b")

    for _ in range(10):
        world.ask("a")
    world.ask("b")

    assert world.sent == [0, 1, 10]


@pytest.mark.parametrize("second", [("a", "lora"), ("lora",), ()], ids=["adapter", "shared", "says nothing"])
def test_models_that_share_replicas_share_all_their_slots(second: tuple[str, ...]) -> None:
    world = World()
    for names in (("a", "lora"), second, ("a", "lora")):
        world.come(*names)

    assert world.pool_of("a") is world.pool_of("lora")
    assert world.pool_of("a").limit == 3 * PER_REPLICA


@pytest.mark.parametrize("tie", ["a replica of both", "a split"])
def test_those_that_wait_go_on_together_where_their_models_share_replicas(tie: str) -> None:
    world = World()
    one, other = world.come("a"), world.come("b")
    for model in "aaabbb":
        world.ask(model)
    assert world.waiting == [2, 5]

    if tie == "a split":
        world.split({b"m": (b"a", b"b")})
    else:
        world.say(other, ("a", "b"))

    assert world.pool_of("a") is world.pool_of("b")
    assert world.waiting == [2, 5]
    world.end(3)  # a slot on either's engines
    world.end(4)
    assert world.sent == [0, 1, 3, 4, 2, 5]
    world.leave(one)


def test_those_that_wait_part_where_their_models_no_longer_share_replicas() -> None:
    world = World()
    world.come("a")
    both = world.come("a", "b")
    for model in "aaaabb":
        world.ask(model)
    assert world.waiting == [4, 5]

    world.say(both, ("b",))
    assert world.waiting == [4, 5]  # it is full, of what it was sent before
    for number in [number for number, replica in world.on.items() if replica is both]:
        world.end(number)

    assert world.sent == [0, 1, 2, 3, 4, 5]
    assert (world.pool_of("a").running, world.pool_of("b").running) == (2, 2)


@pytest.mark.parametrize("tie", ["a list", "a split", "no list"])
def test_what_runs_while_pools_part_counts_where_its_replica_is(tie: str) -> None:
    world = World()
    names = {"a list": ("a", "b"), "a split": ("a",), "no list": ()}[tie]
    world.split({b"m": (b"a", b"b")} if tie == "a split" else {})
    one = world.come(*names)
    other = world.come(*(("b",) if tie == "a split" else names))
    streams = [world.ask(model) for model in ("m" * 2 + "bb" if tie == "a split" else "bbbb")]
    assert [world.num_on(one), world.num_on(other)] == [2, 2]

    world.split({})
    world.say(one, ("a",))
    world.say(other, ("b",))
    world.ask("a")
    world.ask("b")

    assert world.sent == streams  # all engines are full
    assert (world.pool_of("a").running, world.pool_of("b").running) == (2, 2)


def test_what_ends_on_a_replica_that_leaves_keeps_nobody_from_the_others() -> None:
    world = World()
    world.come("a")
    leaving = world.come("a")
    streams = [world.ask("a") for _ in range(4)]
    waits = world.ask("a")

    world.leave(leaving)
    world.end(next(number for number in streams if world.on[number] is not leaving))

    assert world.sent == [*streams, waits]


def test_what_goes_to_another_replica_counts_there() -> None:
    world = World()
    world.come("a")
    world.come("b")
    number = world.ask(None)
    first = world.on[number]

    world.fail(number)

    assert world.on[number] not in (first, None)
    counted = {name: world.pool_of(name).running for name in "ab"}
    assert counted == {name: int(world.on[number] is world.listed["ab".index(name)]) for name in "ab"}


def test_pools_are_found_once_for_all_that_changes_at_a_time() -> None:
    world = World()
    world.is_busy = True

    for name in "abc":
        world.come(name)

    assert len(world.due) == 1
    world.is_busy = False
    world.settle()
    assert (len(world.pools), world.pool_of("c").limit) == (3, PER_REPLICA)


def test_a_model_whose_replicas_all_left_waits_for_no_others() -> None:
    world = World()
    world.come("a")
    gone = world.come("b")
    for _ in range(3):
        world.ask("a")

    world.leave(gone)
    world.ask("b")  # to wait for a replica, or to be refused

    assert world.sent == [0, 1, 3]


def test_one_that_waits_for_a_replica_has_a_slot_of_that_models_pool_again() -> None:
    world = World()
    world.come("a")
    gone = world.come("b")
    world.leave(gone)
    number = world.ask("b")
    world.hold(number)

    world.come("b")
    world.wake(number)

    assert (world.pool_of("a").running, world.pool_of("b").running) == (0, 1)


@pytest.mark.parametrize("model", [None, "unknown"])
def test_what_is_for_any_replica_takes_the_first_slot_of_all(model: str | None) -> None:
    world = World()
    world.come("a")
    world.come("b")
    for name in "aaabbb":
        world.ask(name)
    number = world.ask(model)
    assert world.waiting == [2, 5, number]

    world.end(0)  # by turns: the model's own first
    world.end(1)

    assert world.sent == [0, 1, 3, 4, 2, number]


def test_what_is_for_any_replica_goes_as_soon_as_one_has_a_slot() -> None:
    world = World()
    world.come("a")
    world.come("b")
    numbers = [world.ask(name) for name in ("a", "a", "b", None, None)]
    assert world.sent == numbers[:-1]  # where most slots are left

    world.end(numbers[0])

    assert world.sent == numbers


def test_what_no_replica_is_known_to_serve_waits_for_those_that_did_not_say() -> None:
    world = World()
    for names in (("a",), ("b",), ()):
        world.come(*names)
    for _ in range(3):
        world.ask("unknown")
    world.ask("a")

    assert world.sent == [0, 1, 3]


MODELS = ("a", "b", "c", "alias", "m", "unknown", None)
LISTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(tuple)
SPLITS: list[dict[bytes, tuple[bytes, ...]]] = [{}, {b"m": (b"a", b"b")}, {b"m": (b"b", b"c"), b"a": (b"c",)}]
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.lists(st.sampled_from(MODELS), min_size=1, max_size=6)),
    st.tuples(st.sampled_from(("end", "fail", "hold", "wake", "go")), st.integers(0, 99)),
    st.tuples(st.just("come"), st.one_of(LISTS, st.just(()))),
    st.tuples(st.just("say"), st.tuples(st.integers(0, 9), st.one_of(LISTS, st.just(())))),
    st.tuples(st.sampled_from(("leave", "eject", "admit")), st.integers(0, 9)),
    st.tuples(st.just("split"), st.sampled_from(SPLITS)),
    st.tuples(st.just("routers"), st.integers(1, 3)),
    st.tuples(st.just("busy"), st.booleans()),
)


def step(world: World, kind: str, argument: Any) -> None:
    """One of what may happen, where it can."""
    listed = world.listed
    choices = {
        "end": [*world.running, *world.held],
        "fail": list(world.running),
        "hold": list(world.running),
        "wake": list(world.held),
    }
    if kind == "ask":
        for model in argument:
            world.ask(model)
    elif kind in choices:
        if choices[kind]:
            getattr(world, kind)(choices[kind][argument % len(choices[kind])])
    elif kind == "go":
        if world.waiting:
            world.arrivals[world.waiting[argument % len(world.waiting)]].cancel()
    elif kind == "come":
        world.come(*argument)
    elif kind == "split":
        world.split(argument)
    elif kind == "routers":
        world.gate.tick(argument)
    elif kind == "busy":
        world.is_busy = argument
    elif listed and kind == "say":
        world.say(listed[argument[0] % len(listed)], argument[1])
    elif listed and kind == "leave":
        world.leave(listed[argument % len(listed)])
    elif listed and kind == "eject":
        world.replicas.eject(listed[argument % len(listed)], "test")
    elif listed and kind == "admit":
        world.replicas.admit(listed[argument % len(listed)])


def check(world: World) -> None:
    """What holds whenever nothing is under way."""
    pools = list(world.pools)
    turns = [turn for pool in pools for turn in pool.queue]
    assert len(world.sent) == len(set(world.sent))  # nothing ran twice
    assert {id(turn.arrival) for turn in turns} == {id(world.arrivals[n]) for n in world.waiting}
    assert len(turns) == len(world.waiting) == world.gate.num_waiting  # nothing is lost, or waits twice
    assert world.gate.num_running == len(world.running)
    for pool in pools:
        assert all(turn.pool is turn.account.pool is pool for turn in pool.queue)
        on = [replica for replica in world.listed if world.pools._pool_of.get(replica) is pool]
        unsent = [n for n, one in world.running.items() if world.on[n] is None and _pool_of(one) is pool]
        if pool is not world.pools._nowhere:
            assert pool.running == sum(map(world.num_on, on)) + len(unsent)  # what its engines have
        if pool.running < pool.limit and pool is not world.pools._anywhere:
            assert not pool.queue  # who has room lets nobody wait
            assert not world.pools._anywhere.queue or not pool.num_healthy
    assert sum(pool.num_healthy for pool in pools) <= world.replicas.num_healthy
    lists = [world.models.names_of(replica) or () for replica in world.listed]
    _check_shared([*lists, *({name, *split} for name, split in world.models.split.items())], world)


def _pool_of(grant: Grant) -> Pool | None:
    assert isinstance(grant.slot, _Lease)
    return grant.slot.account.pool if grant.slot.account is not None else None


def _check_shared(groups: list[Collection[bytes]], world: World) -> None:
    """Two models have the same pool just where shared replicas and splits lead from one to the other."""
    names = {name for group in groups for name in group}
    reached = {name: {name} for name in names}
    for _ in names:
        for group in groups:
            together = set[bytes]().union(*(reached[name] for name in group))
            reached |= dict.fromkeys(group, together)
    for one, other in combinations(sorted(names), 2):
        is_shared = world.pool_of(one.decode()) is world.pool_of(other.decode())
        assert is_shared == (other in reached[one])


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=60))
def test_whatever_happens_no_request_is_lost_and_no_pool_with_room_lets_one_wait(
    steps: list[tuple[str, Any]],
) -> None:
    world = World(per_replica=1)
    for kind, argument in steps:
        step(world, kind, argument)
        if not world.is_busy:
            world.settle()
            check(world)
    world.is_busy = False
    world.settle()
    for replica in world.listed:
        world.leave(replica)
    while world.running or world.held:
        world.end(next(iter([*world.running, *world.held])))
    assert not world.waiting
    check(world)
