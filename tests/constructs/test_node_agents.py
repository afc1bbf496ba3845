"""What runs on nodes of a kind: only on groups that have the device, past the taints there, and valid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from fakes_templates import depends_on, new_stack, resources, synthesize
from kubernetes_gate import (
    enums_are_of_the_known_values,
    names_are_unique_and_legal,
    quantities_can_be_read,
    requests_stay_within_limits,
    schema_findings,
    workloads_select_their_own_pods,
)

from hypertier.catalog.node_images import HEALTH_AGENT_ACCOUNTS, NVIDIA_PLUGIN_IMAGE, health_agent_image
from hypertier.errors import ConfigError
from hypertier.spec.instance_group import GROUP_LABEL
from hypertier_cdk import HyperPodCluster, InstanceGroup, Network, Taint
from hypertier_cdk.node_agents import (
    efa_device_plugin,
    health_agent,
    node_agents,
    nvidia_device_plugin,
)

P5 = InstanceGroup(name="p5", instance_type="ml.p5.48xlarge", count=1)
G5 = InstanceGroup(name="g5", instance_type="ml.g5.xlarge", count=1)
CHECKED = InstanceGroup(
    name="checked", instance_type="ml.p5.48xlarge", count=1, deep_health_checks=("InstanceStress",)
)
CPU = InstanceGroup(name="cpu", instance_type="ml.m5.4xlarge", count=1)
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"

Agent = Callable[[Sequence[InstanceGroup], str], list[dict[str, Any]]]


def daemon_set(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [entry for entry in objects if entry["kind"] == "DaemonSet"]
    return found


def groups_of(objects: list[dict[str, Any]]) -> list[str]:
    affinity = daemon_set(objects)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert (expression["key"], expression["operator"]) == (GROUP_LABEL, "In")
    return list(expression["values"])


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        pytest.param(nvidia_device_plugin, ["p5", "g5"], id="NVIDIA plugin, where GPUs are"),
        pytest.param(health_agent, ["p5", "g5"], id="health agent, where GPUs are"),
        pytest.param(efa_device_plugin, ["p5"], id="EFA plugin, where EFA is"),
    ],
)
def test_an_agent_runs_on_the_groups_that_have_its_device(agent: Agent, expected: list[str]) -> None:
    assert groups_of(agent([P5, G5, CPU], "image")) == expected


@pytest.mark.parametrize("agent", [nvidia_device_plugin, health_agent, efa_device_plugin])
def test_where_no_group_has_the_device_there_is_no_agent(agent: Agent) -> None:
    assert agent([CPU], "image") == []


@pytest.mark.parametrize("agent", [nvidia_device_plugin, health_agent, efa_device_plugin])
@pytest.mark.parametrize(
    "group",
    [
        pytest.param(P5, id="the default ones"),
        pytest.param(replace(P5, taints=(Taint(key="team", value="llm", effect="NoExecute"),)), id="yours"),
    ],
)
def test_an_agent_tolerates_the_taints_of_its_nodes(agent: Agent, group: InstanceGroup) -> None:
    tolerated = daemon_set(agent([group], "image"))["spec"]["template"]["spec"]["tolerations"]

    for taint in group.applied_taints:
        assert any(
            toleration["operator"] == "Exists" and toleration.get("key", taint.key) == taint.key
            for toleration in tolerated
        )


def test_agents_are_what_kubernetes_takes() -> None:
    objects = node_agents([P5, CPU, CHECKED], "us-west-2", efa_plugin_image="r.example/efa:1")

    rules = (
        names_are_unique_and_legal,
        quantities_can_be_read,
        enums_are_of_the_known_values,
        requests_stay_within_limits,
        workloads_select_their_own_pods,
    )
    assert list(schema_findings(objects, "1.35")) == []
    assert [finding for rule in rules for finding in rule(objects)] == []


@pytest.mark.parametrize("region", HEALTH_AGENT_ACCOUNTS)
def test_the_health_agent_comes_from_the_region_s_own_registry(region: str) -> None:
    image = health_agent_image(region)

    assert image is not None
    assert image.startswith(f"{HEALTH_AGENT_ACCOUNTS[region]}.dkr.ecr.{region}.amazonaws.com/")


@pytest.mark.parametrize("region", ["eu-west-3", None])
def test_gpus_where_aws_keeps_no_health_agent_need_its_image(region: str | None) -> None:
    with pytest.raises(ConfigError) as refused:
        node_agents([P5], region)

    assert refused.value.setting == "health_agent_image"


def test_an_image_that_is_given_is_taken_in_any_region() -> None:
    objects = node_agents(
        [P5], None, health_agent_image_uri="r.example/agent:1", nvidia_plugin_image="r.example/p:1"
    )

    images = [
        container["image"]
        for entry in objects
        if entry["kind"] == "DaemonSet"
        for container in entry["spec"]["template"]["spec"]["containers"]
    ]
    assert images == ["r.example/p:1", "r.example/agent:1"]


def test_without_gpus_no_region_is_asked_for() -> None:
    assert [entry["kind"] for entry in node_agents([CPU], None) if entry["kind"] == "DaemonSet"] == []


def test_the_agents_are_there_before_the_nodes(reference: Any) -> None:
    (agents,) = [
        logical_id
        for logical_id, resource in resources(reference.template, MANIFEST).items()
        if "DaemonSet" in str(resource["Properties"]["Manifest"])
    ]
    (cluster,) = resources(reference.template, "AWS::SageMaker::Cluster")

    assert agents in depends_on(reference.template, cluster)


def closed_cluster(stack: Any, **settings: Any) -> HyperPodCluster:
    return HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network", closed=True),
        kubernetes_version="1.35",
        instance_groups=[P5, CPU],
        name="test",
        **settings,
    )


def test_a_closed_network_asks_for_a_copy_of_nvidia_s_plugin() -> None:
    with pytest.raises(ConfigError, match="nvidia_plugin_image is not set") as refused:
        closed_cluster(new_stack())

    assert NVIDIA_PLUGIN_IMAGE in str(refused.value)


def test_a_closed_network_takes_a_copy_in_ecr_and_no_other() -> None:
    copy = "123456789012.dkr.ecr.us-west-2.amazonaws.com/k8s-device-plugin:v0.16.1"

    template = synthesize(lambda stack: closed_cluster(stack, nvidia_plugin_image=copy))

    manifests = [entry["Properties"]["Manifest"] for entry in resources(template, MANIFEST).values()]
    assert any(copy in str(manifest) for manifest in manifests)
    with pytest.raises(ConfigError, match="pull-through"):
        closed_cluster(new_stack(), nvidia_plugin_image="docker.io/nvidia/k8s-device-plugin:v0.16.1")
