"""The stacks of the examples, synthesized in memory with the flags of cdk.json."""

from __future__ import annotations

import json
import os
from pathlib import Path

# Before aws_cdk is imported: the template validator runs in the tests of the CLI.
os.environ["CDK_VALIDATION"] = "false"
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

import pytest

from hypertier.spec.deployment import Deployment, load_deployment
from hypertier_cdk.review.templates import Assembly, read_assembly
from infra.stacks import add_stacks, new_app

ROOT = Path(__file__).parents[2]
FLAGS = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]


def synthesized(deployment: Deployment) -> Path:
    """The folder with the templates of a deployment."""
    app = new_app({**FLAGS, "aws:cdk:enable-path-metadata": True})
    add_stacks(app, deployment)
    return Path(app.synth().directory)


@pytest.fixture(scope="session")
def reference_deployment() -> Deployment:
    return load_deployment(ROOT / "examples" / "reference" / "deployment.yaml")


@pytest.fixture(scope="session")
def reference_folder(reference_deployment: Deployment) -> Path:
    return synthesized(reference_deployment)


@pytest.fixture(scope="session")
def reference_assembly(reference_folder: Path) -> Assembly:
    return read_assembly(reference_folder)
