"""The load balancer controller's policy against the one that its authors publish for the same version."""

from __future__ import annotations

import importlib.resources
import itertools
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest

from hypertier_cdk.load_balancer_policy import load_balancer_statements

PUBLISHED = "package/aws-eks-v2/lib/addons/alb-iam_policy-v2.13.0.json"
EC2 = "arn:aws:ec2:us-west-2:111122223333"
ELB = "arn:aws:elasticloadbalancing:us-west-2:111122223333"
VPC = f"{EC2}:vpc/vpc-1"
GROUP = f"{EC2}:security-group/sg-1"
BALANCER = f"{ELB}:loadbalancer/app/name/1"
TARGETS = f"{ELB}:targetgroup/name/1"
LISTENER = f"{ELB}:listener/app/name/1/2"
RULE = f"{ELB}:listener-rule/app/name/1/2/3"
ROLE = (
    "arn:aws:iam::111122223333:role/aws-service-role/elasticloadbalancing.amazonaws.com/"
    "AWSServiceRoleForElasticLoadBalancing"
)
LEFT_OUT = {
    "cognito-idp:DescribeUserPoolClient",
    "ec2:DescribeCoipPools",
    "ec2:DescribeIpamPools",
    "ec2:GetCoipPoolUsage",
    "elasticloadbalancing:ModifyIpPools",
    "elasticloadbalancing:SetWebAcl",
    "iam:GetServerCertificate",
    "iam:ListServerCertificates",
    "shield:CreateProtection",
    "shield:DeleteProtection",
    "shield:DescribeProtection",
    "waf-regional:AssociateWebACL",
    "waf-regional:DisassociateWebACL",
    "waf-regional:GetWebACL",
    "waf-regional:GetWebACLForResource",
    "wafv2:AssociateWebACL",
    "wafv2:DisassociateWebACL",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: `marks` says that the request carries the cluster's tag, `own` that the resource does."""

    action: str
    resource: str
    marks: bool = False
    own: bool = False
    creating: str = ""
    vpc: str = VPC

    def value_of(self, key: str) -> str | None:
        found = {
            "aws:RequestTag/elbv2.k8s.aws/cluster": "name" if self.marks else None,
            "aws:ResourceTag/elbv2.k8s.aws/cluster": "name" if self.own else None,
            "ec2:CreateAction": self.creating or None,
            "elasticloadbalancing:CreateAction": self.creating or None,
            "ec2:Vpc": self.vpc,
            "iam:AWSServiceName": "elasticloadbalancing.amazonaws.com",
        }
        return found[key]


def listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def holds(operator: str, key: str, expected: Any, call: Call) -> bool:
    got = call.value_of(key)
    if operator == "Null":
        return (got is None) == (expected == "true")
    assert operator in ("StringEquals", "ArnEquals")
    return got in listed(expected)


def allows(statements: Sequence[dict[str, Any]], call: Call) -> bool:
    return any(
        call.action in listed(statement["Action"])
        and any(fnmatchcase(call.resource, pattern) for pattern in listed(statement["Resource"]))
        and all(
            holds(operator, key, expected, call)
            for operator, keys in statement.get("Condition", {}).items()
            for key, expected in keys.items()
        )
        for statement in statements
    )


def actions(statements: Sequence[dict[str, Any]]) -> set[str]:
    return {action for statement in statements for action in listed(statement["Action"])}


def all_calls(names: set[str]) -> Iterator[Call]:
    """Every action on every kind of resource, with every mix of tags."""
    somebody_elses = f"{ELB}:loadbalancer/gwy/name/1"
    resources = (VPC, GROUP, BALANCER, TARGETS, LISTENER, RULE, ROLE, somebody_elses)
    creating = ("", "CreateSecurityGroup", "CreateLoadBalancer", "CreateTargetGroup", "CreateListener")
    for action, resource, marks, own, made in itertools.product(
        sorted(names), resources, (False, True), (False, True), creating
    ):
        yield Call(action=action, resource=resource, marks=marks, own=own, creating=made)


@pytest.fixture(scope="module")
def published() -> list[dict[str, Any]]:
    (archive,) = [
        entry
        for entry in importlib.resources.files("aws_cdk._jsii").iterdir()
        if entry.name.startswith("aws-cdk-lib@")
    ]
    # From the front to the file, not to the end of 400 MB.
    with archive.open("rb") as file, tarfile.open(fileobj=file, mode="r|gz") as package:
        (content,) = (
            package.extractfile(member)
            for member in itertools.islice((found for found in package if found.name == PUBLISHED), 1)
        )
        assert content is not None
        statements: list[dict[str, Any]] = json.load(content)["Statement"]
    return statements


@pytest.fixture(scope="module")
def ours() -> list[dict[str, Any]]:
    return load_balancer_statements("aws", "us-west-2", "111122223333", VPC)


def test_no_call_is_allowed_that_the_published_policy_refuses(
    ours: list[dict[str, Any]], published: list[dict[str, Any]]
) -> None:
    names = actions(ours) | actions(published)

    broader = [call for call in all_calls(names) if allows(ours, call) and not allows(published, call)]

    assert broader == []


def test_what_is_left_out_of_the_published_policy_is_known(
    ours: list[dict[str, Any]], published: list[dict[str, Any]]
) -> None:
    assert actions(published) - actions(ours) == LEFT_OUT
    assert actions(ours) <= actions(published)


def named(service: str, name: str, resource: str, **tags: Any) -> Any:
    kind = resource.rpartition(":")[2].partition("/")[0]
    call = Call(action=f"{service}:{name}", resource=resource, **tags)
    return pytest.param(call, id=f"{name} {kind} {' '.join(tags)}".strip())


@pytest.mark.parametrize(
    "call",
    [
        named("iam", "CreateServiceLinkedRole", ROLE),
        named("ec2", "CreateSecurityGroup", GROUP),
        named("ec2", "CreateSecurityGroup", VPC),
        named("ec2", "CreateTags", GROUP, marks=True, creating="CreateSecurityGroup"),
        named("ec2", "CreateTags", GROUP, own=True),
        named("ec2", "DeleteTags", GROUP, own=True),
        named("ec2", "AuthorizeSecurityGroupIngress", GROUP),
        named("ec2", "RevokeSecurityGroupIngress", GROUP),
        named("ec2", "DeleteSecurityGroup", GROUP, own=True),
        *(
            named("elasticloadbalancing", name, resource, marks=True)
            for name, resource in (("CreateLoadBalancer", BALANCER), ("CreateTargetGroup", TARGETS))
        ),
        *(
            named("elasticloadbalancing", "AddTags", resource, marks=True, creating=creating)
            for resource, creating in (
                (BALANCER, "CreateLoadBalancer"),
                (TARGETS, "CreateTargetGroup"),
                (LISTENER, "CreateListener"),
                (RULE, "CreateRule"),
            )
        ),
        *(
            named("elasticloadbalancing", name, resource, own=True)
            for name in ("AddTags", "RemoveTags")
            for resource in (BALANCER, TARGETS, LISTENER, RULE)
        ),
        *(
            named("elasticloadbalancing", name, BALANCER, own=True)
            for name in (
                "DeleteLoadBalancer",
                "ModifyCapacityReservation",
                "ModifyLoadBalancerAttributes",
                "SetIpAddressType",
                "SetSecurityGroups",
                "SetSubnets",
            )
        ),
        *(
            named("elasticloadbalancing", name, TARGETS, own=True)
            for name in (
                "DeleteTargetGroup",
                "DeregisterTargets",
                "ModifyTargetGroup",
                "ModifyTargetGroupAttributes",
                "RegisterTargets",
            )
        ),
        named("elasticloadbalancing", "ModifyListenerAttributes", LISTENER, own=True),
        named("elasticloadbalancing", "CreateListener", BALANCER, own=True),
        *(
            named("elasticloadbalancing", name, LISTENER)
            for name in (
                "AddListenerCertificates",
                "CreateRule",
                "DeleteListener",
                "ModifyListener",
                "RemoveListenerCertificates",
            )
        ),
        *(
            named("elasticloadbalancing", name, RULE)
            for name in ("DeleteRule", "ModifyRule", "SetRulePriorities")
        ),
    ],
)
def test_each_call_that_makes_and_changes_a_load_balancer_is_allowed(
    ours: list[dict[str, Any]], published: list[dict[str, Any]], call: Call
) -> None:
    assert allows(ours, call)
    assert allows(published, call)


@pytest.mark.parametrize(
    "call",
    [
        named("elasticloadbalancing", "CreateListener", BALANCER),
        named("elasticloadbalancing", "RegisterTargets", TARGETS),
        named("elasticloadbalancing", "DeregisterTargets", TARGETS),
        *(
            named("ec2", f"{name}SecurityGroupIngress", GROUP, vpc=f"{EC2}:vpc/vpc-2", own=own)
            for name in ("Authorize", "Revoke")
            for own in (False, True)
        ),
        *(named("elasticloadbalancing", "AddTags", resource, marks=True) for resource in (BALANCER, TARGETS)),
        *(named("elasticloadbalancing", "AddTags", resource) for resource in (BALANCER, TARGETS)),
        named("elasticloadbalancing", "AddTags", BALANCER, marks=True, own=True),
        named("ec2", "CreateTags", GROUP, marks=True),
        named("ec2", "CreateTags", GROUP, marks=True, own=True),
        named("elasticloadbalancing", "DeleteLoadBalancer", BALANCER),
        named("elasticloadbalancing", "SetSecurityGroups", BALANCER),
        named("ec2", "DeleteSecurityGroup", GROUP),
    ],
)
def test_what_the_controller_did_not_make_it_can_neither_change_nor_mark_as_its_own(
    ours: list[dict[str, Any]], call: Call
) -> None:
    assert not allows(ours, call)
