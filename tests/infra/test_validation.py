"""The CDK's own validator, strict, and cdk-nag's AwsSolutions on the stacks of every example."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks
from fakes_nag import found_in
from fakes_stacks import EXAMPLES, FLAGS, ROOT

from hypertier.spec.deployment import load_deployment
from infra.stacks import add_stacks

pytestmark = pytest.mark.cli

EVERY_EXAMPLE_AND_A_FAULT = """
import sys
import aws_cdk as cdk
from hypertier.spec.deployment import load_deployment
from infra.stacks import add_stacks, new_app

app = new_app()
for file in sys.argv[1:]:
    add_stacks(app, load_deployment(file))
cdk.CfnResource(cdk.Stack(app, "Planted"), "Queue", type="AWS::SQS::Queue", properties={"NoSuch": 1})
app.synth()
"""


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_cdk_nag_finds_nothing_in_any_example(file: Path, tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path), context=FLAGS, builtin_cloud_formation_validation=False)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks())
    add_stacks(app, load_deployment(file))

    app.synth()

    assert found_in(tmp_path / "validation-report.json") == set()


def test_the_strict_validator_finds_a_planted_fault_and_nothing_in_any_example(tmp_path: Path) -> None:
    # A process of its own: here the validator is off, and its rules are compiled once a process.
    environment = {name: value for name, value in os.environ.items() if name != "CDK_VALIDATION"}
    environment |= {"CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": json.dumps(FLAGS)}

    done = subprocess.run(
        [sys.executable, "-c", EVERY_EXAMPLE_AND_A_FAULT, *map(str, EXAMPLES)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert FLAGS["@aws-cdk/core:validateAgainstDefaultRules"] is True
    assert done.returncode != 0
    found = found_in(tmp_path / "validation-report.json")
    assert {finding.where.partition("/")[0] for finding in found} == {"Planted"}, found
    passed = len(list((tmp_path / "validated").iterdir()))
    assert passed == len(list(tmp_path.glob("*.template.json"))) - 1  # all others need not be looked at again
