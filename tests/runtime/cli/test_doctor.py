"""`hypertier doctor`: against moto, both formats, its exit status, and what it needs to run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from click.testing import CliRunner, Result
from fakes_manifests import endpoint
from fakes_moto import ACCOUNT, REGION, aws_environment, moto_server

from hypertier.cli.doctor import command
from hypertier.doctor import aws

REFERENCE = str(Path(__file__).parents[3] / "examples" / "reference" / "deployment.yaml")


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with moto_server() as url:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        # moto answers what it does not have with 500, which is worth no second try here.
        monkeypatch.setitem(aws.CONFIG, "retries", {"total_max_attempts": 1})
        yield


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def status_by_check(result: Result) -> dict[str, str]:
    return {found["check"]: found["status"] for found in json.loads(result.output)["checks"]}


def vpc_with_subnets() -> dict[str, Any]:
    """A VPC in moto, as a deployment file tells of it."""
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    made = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{64 * number}.0/18", AvailabilityZone=f"{REGION}{zone}")
        for number, zone in enumerate("ab")
    ]
    subnets = [entry["Subnet"] for entry in made]
    return {
        "vpcId": vpc,
        "vpcCidrs": ["10.0.0.0/16"],
        "availabilityZones": [subnet["AvailabilityZone"] for subnet in subnets],
        "availabilityZoneIds": [subnet["AvailabilityZoneId"] for subnet in subnets],
        "privateSubnetIds": [subnet["SubnetId"] for subnet in subnets],
        "privateSubnetCidrs": [subnet["CidrBlock"] for subnet in subnets],
    }


def written(folder: Path, attributes: dict[str, Any]) -> str:
    (folder / "endpoint.yaml").write_text(yaml.safe_dump(endpoint()), encoding="utf-8")
    deployment = {
        "apiVersion": "hypertier.dev/v1",
        "kind": "Deployment",
        "name": "moto",
        "region": REGION,
        "cluster": {"kubernetesVersion": "1.35", "attributes": attributes},
        "instanceGroups": [
            {"name": "system", "instanceType": "ml.m5.4xlarge", "count": 2},
            {"name": "gpu", "instanceType": "ml.g5.12xlarge", "count": 2},
        ],
        "endpoints": ["endpoint.yaml"],
    }
    file = folder / "deployment.yaml"
    file.write_text(yaml.safe_dump(deployment), encoding="utf-8")
    return str(file)


def test_what_moto_has_is_found_and_what_it_lacks_fails(moto: None, tmp_path: Path) -> None:
    boto3.client("ssm", region_name=REGION).put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
    )
    attributes = vpc_with_subnets()
    file = written(tmp_path, attributes)

    found = status_by_check(run(file, "--format", "json"))

    assert found["CDK bootstrap"] == "ok"
    assert found["stack moto-serving"] == "ok"
    assert found[f"VPC {attributes['vpcId']}"] == "ok"
    assert found["enableDnsHostnames of the VPC"] == "ok"
    assert found["subnets"] == "ok"
    assert found["free addresses of the subnets"] == "ok"
    assert found["instance type of gpu"] == "ok"
    assert found["name moto of the HyperPod cluster"] == "ok"


def test_a_vpc_that_is_not_there_fails_with_1_and_says_so_last(moto: None, tmp_path: Path) -> None:
    attributes = vpc_with_subnets() | {"vpcId": "vpc-0123456789abcdef0"}

    result = run(written(tmp_path, attributes))

    assert result.exit_code == 1
    assert result.output.startswith(f"account {ACCOUNT}, {REGION}\n")
    assert "fails: VPC vpc-0123456789abcdef0: does not exist in this account and Region; " in result.output
    assert f"cdk bootstrap aws://{ACCOUNT}/{REGION}" in result.output


def test_without_credentials_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    result = run(REFERENCE)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "hypertier: AWS can't be asked: Unable to locate credentials; expected" in result.stderr


def test_a_file_that_cannot_be_read_ends_with_2(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none.yaml"))

    assert result.exit_code == 2
    assert "none.yaml" in result.stderr


def test_the_policy_is_printed_without_asking_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    policy = json.loads(run(REFERENCE, "--policy").output)

    actions = [action for statement in policy["Statement"] for action in statement["Action"]]
    assert policy["Version"] == "2012-10-17"
    assert "servicequotas:ListServiceQuotas" in actions
    assert "sagemaker:DescribeTrainingPlan" not in actions
