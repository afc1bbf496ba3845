"""The real CDK CLI bootstraps, deploys and destroys every example, on loopback."""

from __future__ import annotations

import os
import re
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

from hypertier.planning.made import makes_hyperpod, stack_names
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier_cdk.testing import CloudFormationServer

ROOT = Path(__file__).parents[3]
HYPERPOD = "AWS::SageMaker::Cluster"
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


def deployable(file: Path) -> Deployment:
    """An example in the emulated account's Region, with images that exist: building them needs Docker."""
    deployment = load_deployment(file)
    images = replace(deployment.images, engine=f"{REGISTRY}/engine:1", router=f"{REGISTRY}/router:1")
    return replace(deployment, images=images, region=REGION)


@pytest.fixture
def cli(world: Any) -> Iterator[Cli]:
    """All examples in one app: the CLI takes seconds to start, and as many to bring each app's assets."""
    deployments = [deployable(file) for file in EXAMPLES]
    groups = {group.name for deployment in deployments for group in deployment.instance_groups}
    world.fake.nodes = [node(f"hyperpod-i-{name}", name) for name in sorted(groups)]
    assembly = synthesized(*deployments)
    with CloudFormationServer(world.emulator, read_object) as server:
        environment = os.environ | {
            "AWS_ENDPOINT_URL_CLOUDFORMATION": server.url,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
        }
        yield Cli(environment, assembly)


def test_bootstrap_deploy_and_destroy(cli: Cli, world: Any) -> None:
    deployments = [load_deployment(file) for file in EXAMPLES]
    stacks = {name for deployment in deployments for name in stack_names(deployment)}

    cli.run("bootstrap", f"aws://{ACCOUNT}/{REGION}")
    deployed = cli.run("deploy", "--all", "--require-approval", "never")
    made = {resource.stack for resource, _ in world.emulator.all_resources()} - {"CDKToolkit"}
    again = cli.run("deploy", "--all", "--require-approval", "never")
    clusters = [found.properties["ClusterName"] for found, _ in world.emulator.resources(HYPERPOD)]
    cli.run("destroy", "--all", "--force")

    assert set(re.findall(r"✅  ([a-z-]+)$", deployed, re.MULTILINE)) == stacks == made
    assert set(re.findall(r"✅  ([a-z-]+) \(no changes\)", again)) == stacks
    assert sorted(clusters) == sorted(found.name for found in deployments if makes_hyperpod(found))
    assert {resource.stack for resource, _ in world.emulator.all_resources()} == {"CDKToolkit"}
