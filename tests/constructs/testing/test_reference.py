"""The reference constructs, deployed and destroyed: what really happens, in which order."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from fakes_nodes import node

from hypertier.errors import DeploymentError
from hypertier_cdk.testing import Emulator

HYPERPOD = "AWS::SageMaker::Cluster"
WAITER = "Custom::HypertierNodeReadiness"


@pytest.fixture(scope="session")
def assembly(reference: Any) -> str:
    return str(reference.cluster.node.root.outdir)


def positions(emulator: Emulator, action: str, resource_type: str) -> list[int]:
    return [
        number
        for number, event in enumerate(emulator.events)
        if (event.action, event.type) == (action, resource_type)
    ]


def test_with_a_node_the_cluster_comes_up_and_goes_down_again(world: Any, assembly: str) -> None:
    world.fake.nodes = [node("hyperpod-i-1", "system")]

    world.emulator.deploy(assembly)
    world.emulator.destroy()

    created = [event.logical_id for event in world.emulator.events if event.action == "CREATE"]
    deleted = [event.logical_id for event in world.emulator.events if event.action == "DELETE"]
    kept = [logical_id for _, logical_id in world.emulator.retained]
    assert sorted(created) == sorted(deleted + kept)
    assert boto3.client("eks").list_clusters()["clusters"] == []


def test_without_a_node_the_deployment_waits_for_it_and_gives_up(world: Any, assembly: str) -> None:
    with pytest.raises(DeploymentError, match="not complete after 2 looks"):
        world.emulator.deploy(assembly)

    assert positions(world.emulator, "CREATE", HYPERPOD)
    assert world.fake.requests
    assert world.emulator.resources(WAITER) == []


def test_what_needs_nodes_is_made_after_the_wait_and_deleted_before_the_cluster(
    world: Any, assembly: str
) -> None:
    world.fake.nodes = [node("hyperpod-i-1", "system")]

    world.emulator.deploy(assembly)
    world.emulator.destroy()

    (cluster,) = positions(world.emulator, "CREATE", HYPERPOD)
    (waiter,) = positions(world.emulator, "CREATE", WAITER)
    (gone,) = positions(world.emulator, "DELETE", HYPERPOD)
    namespace = [
        number
        for number, event in enumerate(world.emulator.events)
        if event.logical_id.startswith("ClusterNamespace")
    ]
    assert cluster < waiter < namespace[0]
    assert namespace[1] < gone


def test_the_objects_of_the_stacks_reach_the_cluster_and_leave_it(world: Any, assembly: str) -> None:
    world.fake.nodes = [node("hyperpod-i-1", "system")]

    world.emulator.deploy(assembly)

    ((_, eks),) = world.emulator.resources("AWS::EKS::Cluster")
    applied = world.emulator.manifests[eks.ref]
    assert {
        ("DaemonSet", "kube-system", "nvidia-device-plugin"),
        ("ClusterRole", "", "hypertier-readiness"),
        ("Namespace", "", "inference"),
    } <= set(applied)
    world.emulator.destroy()
    assert applied == {}


def test_the_store_s_user_gets_the_password_that_lies_in_the_secret(world: Any, assembly: str) -> None:
    world.fake.nodes = [node("hyperpod-i-1", "system")]

    world.emulator.deploy(assembly)

    ((_, secret),) = world.emulator.resources("AWS::SecretsManager::Secret")
    ((user, _),) = world.emulator.resources("AWS::ElastiCache::User")
    fields = world.emulator.secret(secret.ref)
    assert user.properties["AuthenticationMode"]["Passwords"] == [fields["password"]]
    assert user.properties["UserName"] == fields["username"]
