"""The examples' stacks, deployed whole: endpoints come up, an alarm adds a replica, everything goes again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fakes_nodes import create_eks_cluster, eks_cluster, node
from fakes_stacks import EXAMPLES, example_folder, on_what_exists, synthesized

from hypertier.catalog.addons import CERT_MANAGER, OBSERVABILITY, OPERATOR_PREREQUISITES
from hypertier.catalog.addons import INFERENCE_OPERATOR as ADDON
from hypertier.spec.deployment import Deployment, Scaling, load_deployment
from hypertier.spec.schedules import ScalingSchedule
from hypertier_cdk.testing import Emulator

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "examples" / "reference" / "deployment.yaml"
CLOSED = ROOT / "examples" / "closed-network" / "deployment.yaml"
DISAGGREGATED = ROOT / "examples" / "disaggregated" / "deployment.yaml"
ADOPT = ROOT / "examples" / "adopt-existing" / "deployment.yaml"
RUNG = json.loads((ROOT / "tests" / "events" / "cloudwatch-alarm-high.json").read_text(encoding="utf-8"))


@pytest.fixture
def deployed(world: Any) -> Any:
    world.fake.nodes = [node("hyperpod-i-1", "system")]
    world.emulator.deploy(example_folder(REFERENCE))
    return world


def objects_of(world: Any, kind: str) -> dict[str, dict[str, Any]]:
    ((_, eks),) = world.emulator.resources("AWS::EKS::Cluster")
    return {
        name: manifest
        for (found, _, name), manifest in world.emulator.manifests[eks.ref].items()
        if found == kind
    }


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_an_example_comes_up_and_goes_down_again_leaving_what_is_to_be_kept(world: Any, file: Path) -> None:
    deployment = load_deployment(file)
    world.fake.nodes = [node(f"node-of-{group.name}", group.name) for group in deployment.instance_groups]

    world.emulator.deploy(example_folder(file))
    served = {name for found in world.emulator.manifests.values() for _, _, name in found}
    world.emulator.destroy()

    steps = world.emulator.events
    created = {(step.stack, step.logical_id) for step in steps if step.action == "CREATE"}
    deleted = {(step.stack, step.logical_id) for step in steps if step.action == "DELETE"}
    assert all(any(name.startswith(endpoint.name) for name in served) for endpoint in deployment.endpoints)
    assert created == deleted | set(world.emulator.retained)
    assert all(found == {} for found in world.emulator.manifests.values())


@pytest.mark.parametrize("eks", [pytest.param(None, id="a VPC"), pytest.param("theirs", id="an EKS cluster")])
def test_a_new_cluster_comes_up_on_what_exists_and_leaves_it_as_it_was(world: Any, eks: str | None) -> None:
    world.fake.nodes = [node("hyperpod-i-1", "system")]
    if eks:
        create_eks_cluster(eks, world.fake, world.authority)

    world.emulator.deploy(synthesized(on_what_exists(load_deployment(REFERENCE), eks=eks)))
    clusters = len(world.emulator.resources("AWS::SageMaker::Cluster"))
    served = {name for found in world.emulator.manifests.values() for _, _, name in found}
    world.emulator.destroy()

    assert clusters == 1
    assert {"llama-70b-engine", "health-monitoring-agent"} <= served
    assert all(found == {} for found in world.emulator.manifests.values())
    assert eks is None or eks_cluster(eks)


def test_the_foreign_stack_comes_up_and_goes_down_again(tmp_path: Path) -> None:
    app = ROOT / "examples" / "foreign_stack" / "app.py"
    environment = os.environ | {"CDK_OUTDIR": str(tmp_path)}
    subprocess.run([sys.executable, str(app)], env=environment, check=True, capture_output=True, timeout=300)
    emulator = Emulator()

    emulator.deploy(tmp_path)
    stores = len(emulator.resources("AWS::ElastiCache::ReplicationGroup"))
    emulator.destroy()

    assert stores == 1
    assert len(app.read_text(encoding="utf-8").splitlines()) < 20
    assert emulator.all_resources() == []


def test_stacks_come_up_each_after_those_it_depends_on(deployed: Any) -> None:
    stacks = list(dict.fromkeys(event.stack for event in deployed.emulator.events))

    assert stacks == ["reference-network", "reference-cluster", "reference-serving", "reference-operations"]


def by_the_operator(deployment: Deployment, *, addons: tuple[str, ...] = ()) -> Deployment:
    """The deployment served by AWS's operator, on an EKS cluster that has `addons`, if it exists."""
    told = deployment.cluster.attributes
    cluster = replace(deployment.cluster, attributes=told and replace(told, addons=addons))
    return replace(deployment, serving="operator", scaling=Scaling(min=2, max=2), cluster=cluster)


@pytest.mark.parametrize(
    "deployment",
    [
        pytest.param(on_what_exists(load_deployment(REFERENCE), eks="ml-platform"), id="an EKS cluster"),
        pytest.param(load_deployment(ADOPT), id="a HyperPod cluster"),
    ],
)
@pytest.mark.parametrize(
    ("addons", "made"),
    [
        pytest.param((), {*OPERATOR_PREREQUISITES, ADDON}, id="bare"),
        pytest.param(
            (CERT_MANAGER,), {*OPERATOR_PREREQUISITES, ADDON} - {CERT_MANAGER}, id="with one of its needs"
        ),
        pytest.param((ADDON,), set(), id="with the operator"),
    ],
)
def test_the_operator_comes_onto_what_exists_where_it_is_not_there(
    world: Any, deployment: Deployment, addons: tuple[str, ...], made: set[str]
) -> None:
    world.fake.nodes = [node("hyperpod-i-1", "system")]
    create_eks_cluster("ml-platform", world.fake, world.authority)

    world.emulator.deploy(synthesized(by_the_operator(deployment, addons=addons)))
    installed = [found.properties for found, _ in world.emulator.resources("AWS::EKS::Addon")]
    served = {kind for found in world.emulator.manifests.values() for kind, _, _ in found}
    world.emulator.destroy()

    gone = [step.type for step in world.emulator.events if step.action == "DELETE"]
    assert {addon["AddonName"] for addon in installed} - {OBSERVABILITY} == made
    assert all(addon["ResolveConflicts"] == "NONE" for addon in installed)
    assert "InferenceEndpointConfig" in served
    assert world.emulator.manifests == {"ml-platform": {}}
    assert "AWS::EKS::Cluster" not in gone
    assert eks_cluster("ml-platform")


def test_with_the_operator_the_endpoint_goes_before_it_and_it_before_the_cluster(world: Any) -> None:
    world.fake.nodes = [node("hyperpod-i-1", "system")]
    world.emulator.deploy(synthesized(by_the_operator(load_deployment(REFERENCE))))
    before = len(world.emulator.events)
    endpoints = [
        resource.logical_id
        for resource, _ in world.emulator.resources("Custom::AWSCDK-EKS-KubernetesResource")
        if "InferenceEndpointConfig" in resource.properties["Manifest"]
    ]
    operators = [
        resource.logical_id
        for resource, _ in world.emulator.resources("AWS::EKS::Addon")
        if resource.properties["AddonName"] == ADDON
    ]
    clusters = [resource.logical_id for resource, _ in world.emulator.resources("AWS::SageMaker::Cluster")]

    world.emulator.destroy()

    gone = [step.logical_id for step in world.emulator.events[before:]]
    endpoint, operator, cluster = (gone.index(found) for (found,) in (endpoints, operators, clusters))
    assert endpoint < operator < cluster


def test_one_node_more_is_a_change_of_the_cluster_alone(deployed: Any) -> None:
    deployment = load_deployment(REFERENCE)
    system, gpu = deployment.instance_groups
    before = len(deployed.emulator.events)

    deployed.emulator.deploy(
        synthesized(replace(deployment, instance_groups=(replace(system, count=4), gpu)))
    )

    steps = deployed.emulator.events[before:]
    assert [(step.action, step.type) for step in steps] == [("UPDATE", "AWS::SageMaker::Cluster")]


def test_the_engines_reach_the_store_that_was_made_for_them(deployed: Any) -> None:
    engine = objects_of(deployed, "Deployment")["llama-70b-engine"]
    ((_, store),) = deployed.emulator.resources("AWS::ElastiCache::ReplicationGroup")
    ((_, secret),) = deployed.emulator.resources("AWS::SecretsManager::Secret")

    (container,) = [found for found in engine["spec"]["template"]["spec"]["containers"] if "env" in found]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (
        environment["HYPERTIER_L2_URL"]
        == f"rediss://{store.attributes['ConfigurationEndPoint.Address']}:6379"
    )
    assert environment["HYPERTIER_L2_SECRET_ARN"] == secret.ref


def test_a_cache_alarm_that_rings_adds_a_replica(deployed: Any) -> None:
    engine = objects_of(deployed, "Deployment")["llama-70b-engine"]
    key = (engine["metadata"]["namespace"], engine["metadata"]["name"])
    deployed.fake.create_deployment(*key, replicas=3)
    (alarm,) = [
        resource
        for resource, _ in deployed.emulator.resources("AWS::CloudWatch::Alarm")
        if resource.properties.get("AlarmName", "").endswith("-high")
    ]
    name = alarm.properties["AlarmName"]
    event = json.loads(json.dumps(RUNG).replace("contracts-l1-high", name))
    event["alarmData"]["state"]["timestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000+0000")

    (line,) = deployed.emulator.ring(name, event)

    assert (line["replicas_before"], line["replicas"]) == (3, 4)
    assert deployed.fake.deployments[key]["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("role", "key", "expected"),
    [
        pytest.param("prefill", "high", {"prefill": 2, "decode": 4}, id="prompts wait"),
        pytest.param("decode", "high", {"prefill": 1, "decode": 5}, id="KV cache is full"),
        pytest.param("decode", "low", {"prefill": 1, "decode": 3}, id="KV cache is empty"),
    ],
)
def test_an_alarm_of_one_role_that_rings_steps_its_engines_alone(
    world: Any, role: str, key: str, expected: dict[str, int]
) -> None:
    deployment = load_deployment(DISAGGREGATED)
    world.fake.nodes = [node(f"node-of-{group.name}", group.name) for group in deployment.instance_groups]
    world.emulator.deploy(example_folder(DISAGGREGATED))
    for each, replicas in (("prefill", 1), ("decode", 4)):
        world.fake.create_deployment("inference", f"llama-70b-{each}", replicas=replicas)
    (name,) = [
        made.ref
        for resource, made in world.emulator.resources("AWS::CloudWatch::Alarm")
        if resource.properties.get("AlarmName", "").endswith(f"-{key}")
        and f"llama-70b {role}" in resource.properties["AlarmDescription"]
    ]
    event = json.loads(json.dumps(RUNG).replace("contracts-l1-high", name))
    event["alarmData"]["state"]["timestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000+0000")

    world.emulator.ring(name, event)

    found = {name: each["spec"]["replicas"] for (_, name), each in world.fake.deployments.items()}
    assert found == {f"llama-70b-{each}": replicas for each, replicas in expected.items()}


def schedule_names(world: Any) -> dict[str, str]:
    """What EventBridge Scheduler calls each schedule of the deployment file."""
    return {
        json.loads(resource.properties["Target"]["Input"])["schedule"]: made.ref
        for resource, made in world.emulator.resources("AWS::Scheduler::Schedule")
    }


def test_a_schedule_s_moment_brings_its_replicas_and_a_late_one_takes_none_away(world: Any) -> None:
    """As EventBridge Scheduler calls it: as the schedule's role, with the moment filled in."""
    deployment = load_deployment(CLOSED)
    world.fake.nodes = [node(f"node-of-{group.name}", group.name) for group in deployment.instance_groups]
    world.emulator.deploy(example_folder(CLOSED))
    engine = objects_of(world, "Deployment")["llama-70b-engine"]
    key = (engine["metadata"]["namespace"], engine["metadata"]["name"])
    world.fake.create_deployment(*key, replicas=1)
    names = schedule_names(world)

    lines = [
        world.emulator.pass_schedule(names[name], datetime.fromisoformat(moment))
        for name, moment in (
            ("evening", "2026-12-02T03:00:00Z"),
            ("office-hours", "2026-12-02T15:30:00Z"),
            ("evening", "2026-12-02T03:00:00Z"),
        )
    ]

    assert [line["replicas"] for line in lines] == [2, 4, 4]
    assert world.fake.deployments[key]["spec"]["replicas"] == 4
    annotations = world.fake.deployments[key]["metadata"]["annotations"]
    assert annotations["hypertier.dev/replicas-schedule"] == "office-hours"


def test_an_idle_endpoint_goes_to_zero_when_the_night_comes_and_is_back_when_the_day_does(world: Any) -> None:
    deployment = load_deployment(REFERENCE)
    hours = {"day": ("cron(0 7 ? * * *)", 2), "night": ("cron(0 20 ? * * *)", 0)}
    schedules = tuple(
        ScalingSchedule(name=name, cron=cron, min_replicas=least) for name, (cron, least) in hours.items()
    )
    world.fake.nodes = [node(f"node-of-{group.name}", group.name) for group in deployment.instance_groups]
    world.emulator.deploy(synthesized(replace(deployment, scaling=Scaling(max=3, schedules=schedules))))
    engine = objects_of(world, "Deployment")["llama-70b-engine"]
    key = (engine["metadata"]["namespace"], engine["metadata"]["name"])
    world.fake.create_deployment(*key, replicas=2)
    names = schedule_names(world)
    (sleep,) = [
        made.ref
        for resource, made in world.emulator.resources("AWS::CloudWatch::Alarm")
        if resource.properties.get("MetricName") == "IdleReplicas"
    ]

    def idle(state: str, hour: int) -> int:
        told = {"value": state, "timestamp": f"2026-12-02T{hour:02}:00:00.000+0000"}
        (line,) = world.emulator.ring(sleep, {"alarmData": {"alarmName": sleep, "state": told}}, state)
        return int(line["replicas"])

    def comes(name: str, hour: int) -> int:
        moment = datetime(2026, 12, 2, hour, tzinfo=UTC)
        return int(world.emulator.pass_schedule(names[name], moment)["replicas"])

    seen = [comes("day", 7), idle("ALARM", 8), idle("OK", 9), idle("ALARM", 18), comes("night", 20)]

    assert seen == [2, 2, 2, 2, 0]
    assert world.emulator.pass_schedule(names["day"], datetime(2026, 12, 3, 7, tzinfo=UTC))["replicas"] == 2


def test_every_other_alarm_tells_one_topic_that_it_rings_and_that_it_is_over(deployed: Any) -> None:
    ((_, topic),) = deployed.emulator.resources("AWS::SNS::Topic")
    alarms = [
        made.ref
        for resource, made in deployed.emulator.resources("AWS::CloudWatch::Alarm")
        if topic.ref in resource.properties["AlarmActions"]
    ]

    for name in alarms:
        for state in ("ALARM", "OK"):
            deployed.emulator.ring(name, {"AlarmName": name, "NewStateValue": state}, state)

    told = [json.loads(message) for message in deployed.emulator.messages[topic.ref]]
    assert deployed.emulator.messages.keys() == {topic.ref}
    assert [message["AlarmName"] for message in told] == [name for name in alarms for _ in range(2)]
    assert len(alarms) > 10
