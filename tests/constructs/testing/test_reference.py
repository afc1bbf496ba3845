"""The reference constructs, deployed and destroyed: what really happens, in which order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from fakes_kubernetes import Authority
from fakes_moto import ACCOUNT, REGION, aws_environment, moto_server
from fakes_nodes import NodesFake, create_eks_cluster, node, nodes_api

from hypertier.errors import DeploymentError
from hypertier_cdk.testing import SHAPES, Emulator, Made, Resource, ShapeProvider

HYPERPOD = "AWS::SageMaker::Cluster"
WAITER = "Custom::HypertierNodeReadiness"


class EksInMoto(ShapeProvider):
    """EKS clusters that boto3 finds, with an API that answers."""

    def __init__(self, fake: NodesFake, authority: Authority) -> None:
        super().__init__(SHAPES["AWS::EKS::Cluster"])
        self._fake = fake
        self._authority = authority

    def create(self, resource: Resource) -> Made:
        made = super().create(resource)
        create_eks_cluster(made.ref, self._fake, self._authority)
        return made

    def delete(self, resource: Resource, made: Made) -> None:
        boto3.client("eks").delete_cluster(name=made.ref)


class World:
    """An emulated account whose functions reach moto, and an EKS cluster whose nodes the test decides on."""

    def __init__(self, fake: NodesFake, emulator: Emulator) -> None:
        self.fake = fake
        self.emulator = emulator


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with moto_server() as url, nodes_api(tmp_path) as (fake, authority):
        environment = aws_environment(url)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield World(
            fake,
            Emulator(
                account=ACCOUNT,
                region=REGION,
                environment=environment,
                providers={"AWS::EKS::Cluster": EksInMoto(fake, authority)},
                max_looks=2,
            ),
        )


@pytest.fixture(scope="session")
def assembly(reference: Any) -> str:
    return str(reference.cluster.node.root.outdir)


def positions(emulator: Emulator, action: str, resource_type: str) -> list[int]:
    return [
        number
        for number, event in enumerate(emulator.events)
        if (event.action, event.type) == (action, resource_type)
    ]


def test_with_a_node_the_cluster_comes_up_and_goes_down_again(world: World, assembly: str) -> None:
    world.fake.nodes = [node("hyperpod-i-1", "system")]

    world.emulator.deploy(assembly)
    world.emulator.destroy()

    created = [event.logical_id for event in world.emulator.events if event.action == "CREATE"]
    deleted = [event.logical_id for event in world.emulator.events if event.action == "DELETE"]
    kept = [logical_id for _, logical_id in world.emulator.retained]
    assert sorted(created) == sorted(deleted + kept)
    assert boto3.client("eks").list_clusters()["clusters"] == []


def test_without_a_node_the_deployment_waits_for_it_and_gives_up(world: World, assembly: str) -> None:
    with pytest.raises(DeploymentError, match="not complete after 2 looks"):
        world.emulator.deploy(assembly)

    assert positions(world.emulator, "CREATE", HYPERPOD)
    assert world.fake.requests
    assert world.emulator.resources(WAITER) == []


def test_what_needs_nodes_is_made_after_the_wait_and_deleted_before_the_cluster(
    world: World, assembly: str
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


def test_the_objects_of_the_stacks_reach_the_cluster_and_leave_it(world: World, assembly: str) -> None:
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


def test_the_store_s_user_gets_the_password_that_lies_in_the_secret(world: World, assembly: str) -> None:
    world.fake.nodes = [node("hyperpod-i-1", "system")]

    world.emulator.deploy(assembly)

    ((_, secret),) = world.emulator.resources("AWS::SecretsManager::Secret")
    ((user, _),) = world.emulator.resources("AWS::ElastiCache::User")
    fields = world.emulator.secret(secret.ref)
    assert user.properties["AuthenticationMode"]["Passwords"] == [fields["password"]]
    assert user.properties["UserName"] == fields["username"]
