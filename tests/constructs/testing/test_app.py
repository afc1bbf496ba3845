"""The reference deployment's four stacks, deployed whole: endpoints come up, and an alarm adds a replica."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fakes_nodes import node
from fakes_stacks import synthesized

from hypertier.spec.deployment import load_deployment

ROOT = Path(__file__).parents[3]
RUNG = json.loads((ROOT / "tests" / "events" / "cloudwatch-alarm-high.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def assembly() -> Path:
    return synthesized(load_deployment(ROOT / "examples" / "reference" / "deployment.yaml"))


@pytest.fixture
def deployed(world: Any, assembly: Path) -> Any:
    world.fake.nodes = [node("hyperpod-i-1", "system")]
    world.emulator.deploy(assembly)
    return world


def objects_of(world: Any, kind: str) -> dict[str, dict[str, Any]]:
    ((_, eks),) = world.emulator.resources("AWS::EKS::Cluster")
    return {
        name: manifest
        for (found, _, name), manifest in world.emulator.manifests[eks.ref].items()
        if found == kind
    }


def test_all_stacks_come_up_and_go_down_again_leaving_what_is_to_be_kept(deployed: Any) -> None:
    stacks = list(dict.fromkeys(event.stack for event in deployed.emulator.events))

    deployed.emulator.destroy()

    created = {(e.stack, e.logical_id) for e in deployed.emulator.events if e.action == "CREATE"}
    deleted = {(e.stack, e.logical_id) for e in deployed.emulator.events if e.action == "DELETE"}
    assert stacks == ["reference-network", "reference-cluster", "reference-serving", "reference-operations"]
    assert created == deleted | set(deployed.emulator.retained)


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
