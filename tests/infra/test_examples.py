"""Every example deploys: nothing is left open or to fill in, and cfn-lint finds no fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fakes_stacks import EXAMPLES, ROOT, example_folder, example_templates

from hypertier.spec.deployment import load_deployment
from hypertier_cdk.review.page import Review, review_of
from hypertier_cdk.review.templates import read_assembly

# Custom resources, and why there is no other way.
NO_RESOURCE_OF_AWS = {
    "Custom::AWSCDK-EKS-KubernetesResource": "AWS has none for a Kubernetes object",
    "Custom::AWSCDK-EKS-HelmChart": "nor for a Helm chart",
    "Custom::HypertierNodeReadiness": "nor one that waits for nodes",
    "Custom::CDKBucketDeployment": "nor for an object in S3",
}
every_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)


def review(file: Path) -> Review:
    deployment = load_deployment(file)
    return review_of(deployment.name, read_assembly(example_folder(file)), deployment.region)


@every_example
def test_nothing_that_keeps_data_is_left_open(file: Path) -> None:
    assert [entry for entry in review(file).encryption if entry.is_open] == []


@every_example
def test_no_value_is_left_for_a_person_to_fill_in(file: Path) -> None:
    text = json.dumps(example_templates(file))

    assert "hypertier.dev/placeholders" not in text


@every_example
def test_what_aws_has_a_resource_for_is_made_by_no_function(file: Path) -> None:
    found = {
        resource["Type"]
        for template in example_templates(file).values()
        for resource in template["Resources"].values()
        if resource["Type"].startswith(("Custom::", "AWS::CloudFormation::CustomResource"))
    }

    assert found <= NO_RESOURCE_OF_AWS.keys()


def test_a_closed_network_has_no_way_in_and_none_out() -> None:
    closed = review(ROOT / "examples" / "closed-network" / "deployment.yaml")

    assert closed.exposed == ()
    assert closed.outbound == ()


@pytest.mark.cli
def test_cfn_lint_finds_nothing() -> None:
    cfn_lint = Path(sys.prefix) / "bin" / "cfn-lint"
    regions = sorted({load_deployment(file).region for file in EXAMPLES})
    paths = [str(path) for file in EXAMPLES for path in sorted(example_folder(file).glob("*.template.json"))]

    # W3005: the CDK writes DependsOn beside a Ref to the same resource.
    linted = subprocess.run(
        [str(cfn_lint), "--regions", *regions, "--ignore-checks", "W3005", "--", *paths],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert len(paths) >= 3 * len(EXAMPLES)
    assert linted.returncode == 0, linted.stdout + linted.stderr
