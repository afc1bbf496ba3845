"""What an operator sees of pools: which is full, how long its line is, how long its requests waited."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes_pools import World
from prometheus_client import CollectorRegistry

from hypertier.router.access.metrics import PoolMetrics
from hypertier.router.access.pools import MAX_NAMED

PAGE = Path(__file__).parents[4] / "docs" / "access.md"
QUEUED, RUNNING, SLOTS = (f"hypertier_router_pool_{name}" for name in ("queued", "running", "slots"))
UNSERVED = "hypertier_router_pool_unserved_total"
WAITED = "hypertier_router_queue_seconds_count"


class Told:
    """The series of a world's pools."""

    def __init__(self, world: World) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(PoolMetrics(world.pools))

    def of(self, pool: str, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(name, {"pool": pool, **labels})

    def labels(self, name: str, label: str = "pool") -> set[str]:
        """Every value that a label has, in the series of that name."""
        return {
            sample.labels[label]
            for family in self._registry.collect()
            for sample in family.samples
            if sample.name == name
        }


def test_every_metric_of_pools_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")

    names = {family.name for family in PoolMetrics(World().pools).collect()}

    assert names
    assert not {name for name in names if name not in page}


def test_it_is_seen_which_pool_is_full_and_how_long_its_line_is() -> None:
    world = World(per_replica=2)
    world.come("full")
    world.come("idle")

    for model in ("full", "full", "full", "full", "full", "idle"):
        world.ask(model)

    told = Told(world)
    assert [told.of("full", name) for name in (QUEUED, RUNNING, SLOTS)] == [3, 2, 2]
    assert [told.of("idle", name) for name in (QUEUED, RUNNING, SLOTS)] == [0, 1, 2]


def test_waits_and_those_that_had_no_turn_are_counted_for_their_pool() -> None:
    world = World(per_replica=1, size=1)
    world.come("a")
    world.come("b")
    world.ask("a")
    waits = world.ask("a")
    world.now += 3.0

    world.ask("a")  # no place
    world.end(0)
    leaves = world.ask("a")
    world.arrivals[leaves].cancel()
    world.ask("a")
    world.now += 3600.0
    world.gate.tick(1)

    told = Told(world)
    assert world.sent == [0, waits]
    assert told.of("a", WAITED) == 1
    assert told.of("a", "hypertier_router_queue_seconds_sum") == 3.0
    assert [
        told.of("a", UNSERVED, cause=one) for one in ("queue_full", "client_closed", "queue_timeout")
    ] == [1] * 3
    assert told.of("b", WAITED) == 0
    assert told.of("b", UNSERVED, cause="queue_full") is None


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        ([("b", "a")], "a"),
        ([("base", "lora")], "base"),
        ([("lora",)], "lora"),
        ([()], "(unlisted)"),
        ([("b",), ("b", "c")], "b"),
    ],
    ids=["several", "an adapter", "an adapter alone", "says nothing", "shared"],
)
def test_a_pool_is_named_after_its_first_model_that_is_no_adapter(
    listed: list[tuple[str, ...]], name: str
) -> None:
    world = World(adapters={"lora", "a-lora"})

    for names in listed:
        world.come(*names)

    assert Told(world).labels(QUEUED) == {name, "(any)", "(gone)"}


def test_an_adapter_that_comes_changes_no_name() -> None:
    world = World(adapters={"a-lora"})
    replica = world.come("base")
    world.come("other")

    world.say(replica, ("base", "a-lora"))

    told = Told(world)
    assert told.labels(QUEUED) == {"base", "other", "(any)", "(gone)"}
    assert told.labels("hypertier_router_pool_model", "model") == {"base", "other"}


def test_pools_that_join_are_counted_as_one_and_apart_again_where_they_part() -> None:
    world = World(per_replica=1)
    world.come("a")
    other = world.come("b")
    wait(world, "b")

    world.say(other, ("a", "b"))
    joint = Told(world)
    assert joint.labels(SLOTS) == {"a"}
    assert joint.of("a", "hypertier_router_pool_model", model="b") == 1
    wait(world, "b")
    world.say(other, ("b",))
    wait(world, "b")

    apart = Told(world)
    assert (apart.of("a", WAITED), apart.of("b", WAITED)) == (1, 2)


def wait(world: World, model: str) -> None:
    """One request of the model waits, and has its turn."""
    numbers = [world.ask(model)]
    while not world.waiting:
        numbers.append(world.ask(model))
    for number in numbers:
        world.end(number)


def test_a_pool_without_a_healthy_replica_has_no_slots_to_be_full_of() -> None:
    world = World()
    world.come("a")
    world.replicas.eject(world.come("b"), "test")
    world.settle()

    assert Told(world).labels(SLOTS) == {"a"}


def test_however_many_models_come_and_go_the_names_are_bounded() -> None:
    world = World()
    world.is_busy = True
    for number in range(2 * MAX_NAMED):
        world.come(f"m{number:04}")
    world.is_busy = False
    world.settle()
    told = Told(world)
    assert len(told.labels(QUEUED)) == len({*told.labels(WAITED)}) == MAX_NAMED + 3
    assert "(other)" in told.labels(QUEUED)
    assert len(told.labels("hypertier_router_pool_model", "model")) == MAX_NAMED
    assert told.of("(other)", SLOTS) == 2 * MAX_NAMED

    for number in range(MAX_NAMED + 20):
        world.say(world.listed[0], (f"a{number:04}",))
        wait(world, f"a{number:04}")

    assert len(told.labels(WAITED)) == 2 * MAX_NAMED + 3
    assert told.labels(QUEUED) <= told.labels(WAITED)
