"""The real CDK CLI bootstraps, deploys and destroys every example, on loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fakes_emulator import read_object
from fakes_moto import ACCOUNT, REGION
from fakes_nodes import node
from fakes_stacks import EXAMPLES, synthesized

from hypertier.spec.deployment import load_deployment
from hypertier_cdk.testing import CloudFormationServer

ROOT = Path(__file__).parents[3]
REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"

pytestmark = pytest.mark.cli


@dataclass(frozen=True)
class Cli:
    """The CDK CLI, with an account that is an emulator."""

    environment: dict[str, str]
    app: Path

    def run(self, *arguments: str) -> str:
        ran = subprocess.run(
            [
                str(ROOT / "node_modules" / ".bin" / "cdk"),
                "--no-notices",
                "--ci",
                "--app",
                str(self.app),
                *arguments,
            ],
            cwd=self.app.parent,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
        return ran.stdout + ran.stderr


def assembly_of(file: Path) -> Path:
    deployment = load_deployment(file)
    # Images that exist: building them needs Docker.
    images = replace(deployment.images, engine=f"{REGISTRY}/engine:1", router=f"{REGISTRY}/router:1")
    # The emulated account is one Region's.
    return synthesized(replace(deployment, images=images, region=REGION))


@pytest.fixture(params=EXAMPLES, ids=lambda file: file.parent.name)
def example(request: pytest.FixtureRequest) -> Path:
    file: Path = request.param
    return file


@pytest.fixture
def cli(world: Any, example: Path) -> Iterator[Cli]:
    groups = load_deployment(example).instance_groups
    world.fake.nodes = [node(f"hyperpod-i-{group.name}", group.name) for group in groups]
    assembly = assembly_of(example)
    with CloudFormationServer(world.emulator, read_object) as server:
        environment = os.environ | {
            "AWS_ENDPOINT_URL_CLOUDFORMATION": server.url,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
        }
        yield Cli(environment, assembly)


def test_bootstrap_deploy_and_destroy(cli: Cli, world: Any, example: Path) -> None:
    deployment = load_deployment(example)
    cli.run("bootstrap", f"aws://{ACCOUNT}/{REGION}")
    deployed = cli.run("deploy", "--all", "--require-approval", "never")
    again = cli.run("deploy", "--all", "--require-approval", "never")
    num_clusters = len(world.emulator.resources("AWS::SageMaker::Cluster"))
    cli.run("destroy", "--all", "--force")

    assert f"{deployment.name}-operations" in deployed
    assert "no changes" in again
    assert num_clusters == (0 if deployment.cluster.existing else 1)
    left = {resource.stack for resource, _ in world.emulator.all_resources()}
    assert left == {"CDKToolkit"}
