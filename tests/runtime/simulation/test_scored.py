"""The scoring core against its peers: the promise of docs/routing.md, in small."""

from __future__ import annotations

import statistics

import pytest

from hypertier.simulation.catalog import SCORING, policy
from hypertier.simulation.cluster import ClusterSpec, simulate
from hypertier.simulation.engine import EngineProfile
from hypertier.simulation.report import Summary, summarize
from hypertier.simulation.trace import with_load
from hypertier.simulation.workloads import BUSY_LOAD, WORKLOADS

PROFILE = EngineProfile()
PEERS = ("llm-d", "vllm-kv-aware", "sglang-cache-aware")


def summaries(name: str, spec: ClusterSpec) -> list[Summary]:
    """What the policy makes of every workload; the seed is not one that anything was chosen on."""
    found = []
    for workload, load in BUSY_LOAD.items():
        trace = with_load(WORKLOADS[workload](77, 1000), load * spec.num_replicas, PROFILE.prefill_seconds)
        found.append(summarize(simulate(trace, spec, policy(name), 77)))
    return found


def p90(found: list[Summary]) -> float:
    return statistics.geometric_mean(summary.ttft_p90_seconds for summary in found)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(ClusterSpec(8, PROFILE), id="by history"),
        pytest.param(ClusterSpec(8, PROFILE, events=True), id="by KV events"),
        pytest.param(ClusterSpec(8, PROFILE, num_routers=3, events=True), id="three routers"),
        pytest.param(ClusterSpec(8, PROFILE, slow_replicas=1), id="a slow replica"),
        pytest.param(ClusterSpec(8, PROFILE, believed_capacity=4.0), id="caches believed larger"),
    ],
)
def test_scoring_waits_less_than_every_peer(spec: ClusterSpec) -> None:
    ours = p90(summaries(SCORING, spec))
    best = min(p90(summaries(name, spec)) for name in PEERS)

    assert ours <= 0.9 * best


def test_three_routers_that_tell_one_another_are_as_good_as_one() -> None:
    one = p90(summaries(SCORING, ClusterSpec(8, PROFILE)))
    three = p90(summaries(SCORING, ClusterSpec(8, PROFILE, num_routers=3)))

    assert three <= 1.1 * one
