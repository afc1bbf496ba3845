"""The engine's image comes to nodes ahead of engines: where, as whom, by a process that ends when told."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from fakes_charts import SPLIT, deployment

from hypertier.spec.deployment import Deployment, Images, Scaling
from hypertier.spec.instance_group import GROUP_LABEL, InstanceGroup, Taint
from hypertier_cdk.charts.pre_pull import WAIT
from hypertier_cdk.charts.render import render


def daemon_sets(wanted: Deployment) -> list[dict[str, Any]]:
    return [entry for entry in render(wanted) if entry["kind"] == "DaemonSet"]


def one(wanted: Deployment) -> dict[str, Any]:
    (found,) = daemon_sets(wanted)
    return found


def pod(wanted: Deployment) -> dict[str, Any]:
    return dict(one(wanted)["spec"]["template"]["spec"])


def engine(wanted: Deployment) -> dict[str, Any]:
    found = next(
        entry
        for entry in render(wanted)
        if entry["metadata"]["name"] == "llama-70b-engine" and entry["kind"] == "Deployment"
    )
    return dict(found["spec"]["template"]["spec"])


def groups_of(pod: dict[str, Any]) -> list[str]:
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((expression,),) = (term["matchExpressions"] for term in affinity["nodeSelectorTerms"])
    assert (expression["key"], expression["operator"]) == (GROUP_LABEL, "In")
    return list(expression["values"])


def test_the_image_is_the_engine_s_own() -> None:
    wanted = deployment(images=Images(engine="registry.internal/engine:1"))

    (container,) = pod(wanted)["containers"]

    assert container["image"] == engine(wanted)["containers"][0]["image"] == "registry.internal/engine:1"
    assert "nvidia.com/gpu" not in str(container["resources"])


def test_it_comes_to_the_nodes_that_engines_run_on_past_their_taints() -> None:
    taint = Taint(key="team", value="llm")
    groups = (
        InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=2),
        InstanceGroup(name="gpu", instance_type="ml.p5.48xlarge", count=7, taints=(taint,)),
        InstanceGroup(name="training", instance_type="ml.p4d.24xlarge", count=1),
    )

    found = pod(deployment(instance_groups=groups))

    assert groups_of(found) == ["gpu"]
    assert found["tolerations"] == engine(deployment(instance_groups=groups))["tolerations"]


def test_engines_of_two_kinds_on_one_group_share_it() -> None:
    wanted = deployment({"spec.pdSpec": SPLIT}, scaling=Scaling())

    assert groups_of(pod(wanted)) == ["gpu"]


def test_a_new_image_comes_to_all_nodes_at_once() -> None:
    strategy = one(deployment())["spec"]["updateStrategy"]

    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}


def test_it_talks_to_nobody_and_holds_no_credentials() -> None:
    objects = render(deployment())
    policy = next(
        entry
        for entry in objects
        if entry["kind"] == "NetworkPolicy" and entry["metadata"]["name"] == "llama-70b-prepull"
    )

    found = pod(deployment())

    assert (policy["spec"]["ingress"], policy["spec"]["egress"]) == ([], [])
    assert found["serviceAccountName"] == "llama-70b-prepull"
    assert found["automountServiceAccountToken"] is False


def test_a_service_account_of_the_user_s_pulls_for_it_too() -> None:
    wanted = deployment({"spec.kubernetes": {"serviceAccountName": "pulls"}})

    assert pod(wanted)["serviceAccountName"] == "pulls"


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(deployment(images=Images(pre_pull=False)), id="switched off"),
        pytest.param(deployment(serving="operator"), id="of AWS's operator"),
    ],
)
def test_where_it_is_not_wanted_nothing_of_it_is_left(wanted: Deployment) -> None:
    assert [entry for entry in render(wanted) if "prepull" in str(entry)] == []


def test_the_process_waits_and_ends_when_it_is_told_to() -> None:
    process = subprocess.Popen([sys.executable, "-IS", "-c", WAIT])
    try:
        deadline = time.monotonic() + 10
        while not is_waiting(process.pid) and time.monotonic() < deadline:
            assert process.poll() is None

        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=10) == 0
    finally:
        process.kill()


def is_waiting(pid: int) -> bool:
    """Whether the process has its interpreter's handlers and sleeps: it waits for the signal by now."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        told = {name: value.strip() for name, _, value in (line.partition(":") for line in status)}
    return told["State"].startswith("S") and bool(int(told["SigCgt"], 16) & 1 << signal.SIGINT - 1)
