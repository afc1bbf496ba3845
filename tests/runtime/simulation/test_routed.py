"""The router's own strategies under a simulated clock, alone and with others that they hear or not."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest

from hypertier.simulation import routed
from hypertier.simulation.catalog import policy
from hypertier.simulation.channels import Channels
from hypertier.simulation.cluster import ClusterSpec, simulate
from hypertier.simulation.engine import EngineProfile
from hypertier.simulation.policy import World
from hypertier.simulation.report import summarize
from hypertier.simulation.routed import Routed
from hypertier.simulation.trace import TracedRequest, with_load
from hypertier.simulation.workloads import BUSY_LOAD, WORKLOADS

PROFILE = EngineProfile()


def traffic(workload: str, spec: ClusterSpec) -> list[TracedRequest]:
    """Of a seed that nothing was chosen on."""
    load = BUSY_LOAD[workload] * spec.num_replicas
    return with_load(WORKLOADS[workload](77, 600), load, PROFILE.prefill_seconds)


def p90(spec: ClusterSpec, build: Callable[[World], Routed], *workloads: str) -> float:
    """The geometric mean over the workloads."""
    found = [
        summarize(simulate(traffic(workload, spec), spec, build, 77)).ttft_p90_seconds
        for workload in workloads
    ]
    return statistics.geometric_mean(found)


@pytest.mark.parametrize(
    ("name", "events", "workloads"),
    [
        ("prefixaware", False, ("conversation", "agent", "multi_round")),
        ("kvaware", True, ("agent", "multi_round")),
    ],
    ids=["prefixaware", "kvaware"],
)
def test_three_routers_that_tell_one_another_are_nearly_as_good_as_one(
    name: str, events: bool, workloads: tuple[str, ...]
) -> None:
    spec = ClusterSpec(8, PROFILE, events=events, num_routers=3)
    one = p90(ClusterSpec(8, PROFILE, events=events), routed.strategy(name), *workloads)
    three = p90(spec, routed.strategy(name), *workloads)
    deaf = p90(spec, routed.strategy(name, speaks=False), *workloads)

    assert three <= 1.1 * one
    assert deaf >= 1.5 * one


def test_a_lost_channel_costs_less_than_none_and_nothing_stays_in_flight() -> None:
    made: list[Routed] = []
    spec = ClusterSpec(8, PROFILE, num_routers=3, cut=(0.4, 0.6))

    def build(world: World) -> Routed:
        made.append(Routed(world, "prefixaware"))
        return made[-1]

    cut = p90(spec, build, "multi_round")
    deaf = p90(spec, routed.strategy("prefixaware", speaks=False), "multi_round")

    assert cut < deaf
    assert {router.num_in_flight for router in made} == {0}


@pytest.mark.parametrize("name", ["prefixaware", "kvaware", "session", "roundrobin"])
def test_every_strategy_can_be_simulated(name: str) -> None:
    spec = ClusterSpec(2, PROFILE, events=True)
    trace = traffic("agent", spec)[:50]

    outcome = simulate(trace, spec, policy(name))

    assert len(outcome.jobs) == 50


class Speaker:
    """Says what it is given, and remembers what it hears."""

    def __init__(self) -> None:
        self.says = b""
        self.told: list[tuple[object, bytes]] = []
        self.num_lost = 0

    def said(self) -> bytes:
        says, self.says = self.says, b""
        return says

    def in_flight_messages(self) -> bytes:
        return b"again"

    def heard(self, peer: object, data: bytes, now: float) -> None:
        self.told.append((peer, data))

    def lost(self, peer: object, now: float) -> None:
        self.num_lost += 1


def test_what_is_said_while_the_channel_is_cut_is_made_up_for_afterwards() -> None:
    one, other = Speaker(), Speaker()
    timers: list[tuple[float, Callable[[float], None]]] = []
    made = Channels([one, other], lambda when, act: timers.append((when, act)), (10.0, 20.0))

    def pass_time(until: float) -> None:
        while due := [timer for timer in timers if timer[0] <= until]:
            first = min(due, key=lambda timer: timer[0])
            timers.remove(first)
            first[1](first[0])

    for now, text in ((1.0, b"before"), (12.0, b"during"), (40.0, b"after")):
        pass_time(now)
        one.says = text
        made.flush(0, now)
    pass_time(100.0)

    assert [text for _, text in other.told] == [b"before", b"again", b"after"]
    assert len({peer for peer, _ in other.told}) == 2
    assert other.num_lost >= 1
