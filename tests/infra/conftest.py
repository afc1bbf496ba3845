"""The stacks of the examples, synthesized in memory with the flags of cdk.json."""

from __future__ import annotations

import os
from pathlib import Path

# Before aws_cdk is imported: the template validator runs in the tests of the CLI.
os.environ["CDK_VALIDATION"] = "false"
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
import hypertier_cdk.testing.files  # noqa: F401  # isort: skip  # before what imports aws_cdk, too

import pytest
from fakes_stacks import ROOT, example_folder

from hypertier.spec.deployment import Deployment, load_deployment
from hypertier_cdk.review.templates import Assembly, read_assembly

REFERENCE = ROOT / "examples" / "reference" / "deployment.yaml"


@pytest.fixture(scope="session")
def reference_deployment() -> Deployment:
    return load_deployment(REFERENCE)


@pytest.fixture(scope="session")
def reference_folder() -> Path:
    return example_folder(REFERENCE)


@pytest.fixture(scope="session")
def reference_assembly(reference_folder: Path) -> Assembly:
    return read_assembly(reference_folder)
