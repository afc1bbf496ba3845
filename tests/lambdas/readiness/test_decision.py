"""When nodes count as ready, and what is said of those that are missing."""

from __future__ import annotations

from typing import Any

import pytest

from hypertier_lambdas.readiness.decision import GROUP_LABEL, HEALTH_LABEL, Node, judge, read_node

SILENT = "not ready: the kubelet has not reported yet"


def manifest(**changed: Any) -> dict[str, Any]:
    chosen = {
        "status": "True",
        "reason": "KubeletReady",
        "health": "Schedulable",
        "cordoned": False,
    } | changed
    labels = {GROUP_LABEL: "gpu"} | ({HEALTH_LABEL: chosen["health"]} if chosen["health"] else {})
    return {
        "metadata": {"name": "hyperpod-i-1", "labels": labels},
        "spec": {"unschedulable": True} if chosen["cordoned"] else {},
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
                {"type": "Ready", "status": chosen["status"], "reason": chosen["reason"]},
            ]
        },
    }


@pytest.mark.parametrize(
    ("node", "obstacle"),
    [
        pytest.param(manifest(), "", id="ready"),
        pytest.param(manifest(health=None), "", id="ready, HyperPod has not labelled it"),
        pytest.param(
            manifest(status="False", reason="NetworkPluginNotReady"),
            "not ready: NetworkPluginNotReady",
            id="no network",
        ),
        pytest.param(
            manifest(status="Unknown", reason=None),
            "not ready: the kubelet has not reported yet",
            id="silent",
        ),
        pytest.param(
            manifest(health="Unschedulable"), "health status Unschedulable", id="under a health check"
        ),
        pytest.param(manifest(cordoned=True), "cordoned", id="cordoned"),
        pytest.param(
            {"metadata": {"name": "hyperpod-i-1", "labels": {GROUP_LABEL: "gpu"}}},
            SILENT,
            id="just joined",
        ),
    ],
)
def test_a_node_is_ready_when_a_pod_could_be_scheduled_on_it(node: dict[str, Any], obstacle: str) -> None:
    assert read_node(node) == Node("hyperpod-i-1", "gpu", obstacle)


def test_a_node_without_labels_belongs_to_no_group() -> None:
    assert read_node({}).group == ""


@pytest.mark.parametrize(
    ("wanted", "nodes", "missing"),
    [
        pytest.param({"gpu": 1}, [Node("a", "gpu")], "", id="as many as wanted"),
        pytest.param(
            {"gpu": 1}, [Node("a", "gpu"), Node("b", "gpu", "cordoned")], "", id="more joined than wanted"
        ),
        pytest.param({"gpu": 0}, [], "", id="none wanted"),
        pytest.param({}, [], "", id="no group wanted"),
        pytest.param(
            {"gpu": 1},
            [Node("a", "cpu")],
            "gpu: 0 of 1 nodes ready (none has joined the cluster yet)",
            id="another group's",
        ),
        pytest.param({"gpu": 3}, [Node("a", "gpu")], "gpu: 1 of 3 nodes ready (1 joined)", id="too few"),
        pytest.param(
            {"cpu": 1, "gpu": 1},
            [Node("a", "gpu", "cordoned"), Node("b", "cpu")],
            "gpu: 0 of 1 nodes ready (a cordoned)",
            id="one group is there, one is not",
        ),
        pytest.param(
            {"gpu": 5},
            [Node(name, "gpu", "cordoned") for name in "abcde"],
            "gpu: 0 of 5 nodes ready (a cordoned, b cordoned, c cordoned, and 2 more)",
            id="many: a few are named",
        ),
    ],
)
def test_what_is_missing_is_said_by_group_and_node(
    wanted: dict[str, int], nodes: list[Node], missing: str
) -> None:
    verdict = judge(wanted, nodes)

    assert (verdict.is_ready, verdict.missing) == (missing == "", missing)
