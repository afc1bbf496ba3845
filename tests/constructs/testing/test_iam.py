"""What functions may do in the emulator: what their roles' policies say, and nothing else."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from fakes_assembly import assembly, function
from fakes_moto import REGION
from fakes_nodes import create_eks_cluster, node
from fakes_stacks import EXAMPLES, ROOT, example_folder

from hypertier.errors import DeploymentError
from hypertier.exporter.cloudwatch import CloudWatch
from hypertier.exporter.metrics import NAMESPACE, WARM_TOKENS
from hypertier.exporter.series import DataPoint
from hypertier_cdk.testing import Emulator
from hypertier_cdk.testing.iam import is_allowed, resource_of

SMALL = next(file for file in EXAMPLES if file.parent.name == "small")
RUNG = (ROOT / "tests" / "events" / "cloudwatch-alarm-high.json").read_text(encoding="utf-8")
READ, BUCKET = "s3:GetObject", "arn:aws:s3:::mine"
BELOW = f"{BUCKET}/a/b"


def says(effect: str = "Allow", **elements: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": READ, "Resource": f"{BUCKET}/*"} | elements


TENANT = {"StringEquals": {"aws:PrincipalTag/tenant": ["acme", "zeta"]}}


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        pytest.param([], False, id="nothing is said"),
        pytest.param([says()], True, id="below the bucket"),
        pytest.param([says(Resource=BUCKET)], False, id="the bucket alone"),
        pytest.param([says(Resource=[BUCKET, "*"])], True, id="one of several"),
        pytest.param([says(Resource="arn:aws:s3:::min?/a/*")], True, id="any one character"),
        pytest.param([says(Resource="arn.aws.s3...mine/*")], False, id="a dot is a dot"),
        pytest.param([says(Action="S3:get*")], True, id="an action in any case"),
        pytest.param([says(Action=["s3:PutObject"])], False, id="another action"),
        pytest.param([says(), says("Deny", Resource=f"{BUCKET}/a/*")], False, id="denied is denied"),
        pytest.param([says(), says("Deny", Resource=f"{BUCKET}/b/*")], True, id="another one is denied"),
        pytest.param([says(Condition=TENANT)], True, id="a condition that holds"),
        pytest.param([says("Deny", Condition=TENANT), says()], False, id="a denial whose condition holds"),
        pytest.param([says(Condition={"StringEquals": {"aws:x": "y"}})], False, id="a key that is not there"),
        pytest.param([says(Condition={"StringLike": {"aws:PrincipalTag/tenant": "z*"}})], False, id="unlike"),
    ],
)
def test_what_the_statements_allow_is_allowed(statements: list[dict[str, Any]], expected: bool) -> None:
    assert is_allowed(statements, READ, BELOW, {"aws:PrincipalTag/tenant": "acme"}) is expected


def test_not_these_are_all_others() -> None:
    one = {"Effect": "Allow", "NotAction": "iam:*", "NotResource": f"{BUCKET}/b/*"}

    assert is_allowed([one], READ, BELOW, {})
    assert not is_allowed([one], "iam:PassRole", BELOW, {})
    assert not is_allowed([one], READ, f"{BUCKET}/b/c", {})


def test_a_condition_that_is_not_understood_is_refused_and_not_passed_over() -> None:
    with pytest.raises(NotImplementedError, match="does not know the condition IpAddress"):
        is_allowed([says(Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}})], READ, BELOW, {})


@pytest.mark.parametrize("name", ["/ours/key", "key"])
def test_a_parameter_s_arn_has_one_slash_before_its_name(name: str) -> None:
    resource = resource_of("ssm:GetParameter", {"region": "r", "account": "1", "Name": name})

    assert resource == f"arn:aws:ssm:r:1:parameter/{name.removeprefix('/')}"


CALLS = """
import boto3, os

def handler(event, context):
    cluster = boto3.client("eks").describe_cluster(name=event["name"])["cluster"]
    return {"arn": cluster["arn"], "key": os.environ["AWS_ACCESS_KEY_ID"]}
"""


def calling(stack: cdk.Stack, code: Path, *statements: iam.PolicyStatement) -> None:
    (code / "index.py").write_text(CALLS, encoding="utf-8")
    made = function(stack, code, timeout=cdk.Duration.seconds(30))
    for statement in statements:
        made.add_to_role_policy(statement)


def test_a_function_may_do_what_its_own_role_says(world: Any, code: Path) -> None:
    allowed = iam.PolicyStatement(
        actions=["eks:Describe*"], resources=["arn:aws:eks:us-west-2:123456789012:cluster/theirs"]
    )
    world.emulator.deploy(assembly(lambda stack: calling(stack, code, allowed)))
    create_eks_cluster("theirs", world.fake, world.authority)

    answer = world.emulator.invoke("handler", {"name": "theirs"})

    assert answer["arn"].endswith(":cluster/theirs")
    assert answer["key"].startswith("ASIA")
    with pytest.raises(
        DeploymentError,
        match=r"AccessDeniedException.*assumed-role/.*/handler is not authorized to perform: "
        r"eks:DescribeCluster on resource: arn:aws:eks:us-west-2:123456789012:cluster/another",
    ):
        world.emulator.invoke("handler", {"name": "another"})


def test_a_function_that_may_not_write_its_log_is_refused(code: Path) -> None:
    def build(stack: cdk.Stack) -> None:
        role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        function(stack, code, environment={"MINE": ""}, role=role.without_policy_updates())

    emulator = Emulator()
    emulator.deploy(assembly(build))

    with pytest.raises(DeploymentError, match=r"may not write its log: .*logs:CreateLogStream on resource"):
        emulator.invoke("handler", {})


def without(folder: Path, into: Path, *, stack: str, text: str, instead: str) -> Path:
    """An assembly with another text in the template of one stack."""
    into.mkdir()
    for file in folder.iterdir():
        if file.name != f"{stack}.template.json":
            (into / file.name).symlink_to(file)
            continue
        written = file.read_text(encoding="utf-8")
        assert text in written
        (into / file.name).write_text(written.replace(text, instead), encoding="utf-8")
    return into


NODES = {
    "IAM lets it find the cluster": ("eks:DescribeCluster", "eks:ListClusters", "not complete"),
    "an access entry knows it": ('"KubernetesGroups"', '"Tags"', "not complete"),
    "RBAC lets it list nodes": (r"\"resources\":[\"nodes\"]", r"\"resources\":[\"pods\"]", "not complete"),
    "it may write its log": ("logs:PutLogEvents", "logs:GetLogEvents", "may not write its log"),
}


@pytest.mark.parametrize("grant", NODES)
def test_without_one_of_its_grants_the_wait_for_nodes_ends_the_deployment(
    world: Any, tmp_path: Path, grant: str
) -> None:
    text, instead, said = NODES[grant]
    folder = without(
        example_folder(SMALL), tmp_path / "assembly", stack="small-cluster", text=text, instead=instead
    )
    world.fake.nodes = [node("one", "system"), node("two", "gpu")]

    with pytest.raises(DeploymentError, match=said):
        world.emulator.deploy(folder)


REPLICAS = {
    "IAM lets it find the cluster": ("eks:DescribeCluster", "eks:ListClusters", "AccessDeniedException"),
    "an access entry knows it": ('"KubernetesGroups"', '"Tags"', "GET .*HTTP 403"),
    "RBAC lets it patch": (r"\"get\",\"patch\"", r"\"get\",\"list\"", "PATCH .*HTTP 403"),
    "RBAC names its Deployment": (r"\"resourceNames\":[\"llama-8b-", r"\"resourceNames\":[\"b-", "HTTP 403"),
    "alarms may call it": ("lambda.alarms.cloudwatch.amazonaws.com", "s3.amazonaws.com", "may not call"),
    "it may hand on what failed": ("sqs:SendMessage", "sqs:ReceiveMessage", "may not hand on what failed"),
    "it may write its log": ("logs:PutLogEvents", "logs:GetLogEvents", "may not write its log"),
}


@pytest.mark.parametrize("grant", REPLICAS)
def test_without_one_of_its_grants_the_hook_steps_no_replica(world: Any, tmp_path: Path, grant: str) -> None:
    text, instead, said = REPLICAS[grant]
    folder = without(
        example_folder(SMALL), tmp_path / "assembly", stack="small-serving", text=text, instead=instead
    )
    world.fake.nodes = [node("one", "system"), node("two", "gpu")]
    world.fake.create_deployment("inference", "llama-8b-engine", replicas=1)
    world.emulator.deploy(folder)
    (name,) = [
        made.ref
        for _, made in world.emulator.resources("AWS::CloudWatch::Alarm")
        if made.ref.endswith("-high")
    ]
    event = json.loads(RUNG.replace("contracts-l1-high", name))

    with pytest.raises(DeploymentError, match=said):
        world.emulator.ring(name, event)

    assert world.fake.deployments["inference", "llama-8b-engine"]["spec"]["replicas"] == 1


MARKS = {
    "all of them": ("{", "{", None),
    "IAM lets it read figures": ("cloudwatch:GetMetricData", "cloudwatch:ListMetrics", "not authorized"),
    "RBAC lets it list pods": (r"[\"list\",\"patch\"]", r"[\"watch\",\"patch\"]", "GET .*HTTP 403"),
    "RBAC lets it mark pods": (r"[\"list\",\"patch\"]", r"[\"list\",\"watch\"]", "PATCH .*HTTP 403"),
    "RBAC means its namespace": (r"\"pods\"", r"\"secrets\"", "GET .*HTTP 403"),
}


@pytest.mark.parametrize("grant", MARKS)
def test_with_its_grants_the_hook_marks_the_coldest_and_without_one_it_says_so_and_steps(
    world: Any, tmp_path: Path, grant: str
) -> None:
    text, instead, said = MARKS[grant]
    folder = without(
        example_folder(SMALL), tmp_path / "assembly", stack="small-serving", text=text, instead=instead
    )
    world.fake.nodes = [node("one", "system"), node("two", "gpu")]
    world.fake.create_deployment("inference", "llama-8b-engine", replicas=2)
    for name, address, tokens in (("warm", "10.0.0.1", 9000.0), ("cold", "10.0.0.2", 20.0)):
        world.fake.create_pod("inference", name, address, app="llama-8b-engine")
        publish_warm_tokens(address, tokens)
    world.emulator.deploy(folder)
    (low,) = [
        made.ref
        for _, made in world.emulator.resources("AWS::CloudWatch::Alarm")
        if made.ref.endswith("-low")
    ]

    (line,) = world.emulator.ring(low, json.loads(RUNG.replace("contracts-l1-high", low)))

    assert world.fake.deployments["inference", "llama-8b-engine"]["spec"]["replicas"] == 1
    if said is None:
        assert (line["coldest"], "coldest_unknown" in line) == (["cold"], False)
        assert world.fake.reconcile("inference", "llama-8b-engine") == ["warm"]
    else:
        assert line["coldest"] == []
        assert re.search(said, line["coldest_unknown"])


def publish_warm_tokens(address: str, tokens: float) -> None:
    """As the exporter does."""
    data = [DataPoint(WARM_TOKENS, (tokens,), replica=address)]
    CloudWatch("llama-8b", NAMESPACE, REGION).publish(data, datetime.now(UTC))
