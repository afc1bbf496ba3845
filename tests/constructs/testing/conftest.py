"""An emulated account whose functions reach moto, and an EKS cluster whose nodes the test decides on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from fakes_kubernetes import Authority
from fakes_moto import ACCOUNT, REGION, aws_environment, moto_server
from fakes_nodes import NodesFake, create_eks_cluster, nodes_api

from hypertier_cdk.testing import SHAPES, Emulator, Made, Resource, ShapeProvider


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


@dataclass(frozen=True)
class World:
    """The account, and the Kubernetes API of its one cluster."""

    fake: NodesFake
    emulator: Emulator


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
