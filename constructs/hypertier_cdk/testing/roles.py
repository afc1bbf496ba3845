"""Who a function is: its role's statements, its credentials, and what Lambda itself needs the role for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypertier.errors import DeploymentError
from hypertier_cdk.testing.iam import Statement, is_allowed
from hypertier_cdk.testing.providers import Made, Resource

_LOGS = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"]
_INTERFACES = [
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
]
MANAGED: Mapping[str, list[str]] = {
    "AWSLambdaBasicExecutionRole": _LOGS,
    "AWSLambdaVPCAccessExecutionRole": [
        *_LOGS,
        *_INTERFACES,
        "ec2:AssignPrivateIpAddresses",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
    ],
}
"""What AWS's own policies for functions allow, on every resource; its others allow nothing here.

https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSLambdaVPCAccessExecutionRole.html
(read 2026-12-02)
"""


@dataclass(frozen=True, slots=True)
class Caller:
    """A role that a function runs with: what its policies say, and how AWS would know it."""

    arn: str
    statements: tuple[Statement, ...]

    @property
    def access_key(self) -> str:
        """The id of its credentials; the same for each function with the role."""
        return "ASIA" + hashlib.sha256(self.arn.encode()).hexdigest()[:16].upper()

    @property
    def environment(self) -> dict[str, str]:
        """Its credentials, as Lambda sets them."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": "a-key-of-no-account",
            "AWS_SESSION_TOKEN": "a-token-of-no-session",
        }


class Roles:
    """The roles among what exists."""

    def __init__(self, existing: Callable[[str], Iterable[tuple[Resource, Made]]]) -> None:
        self._existing = existing

    def caller(self, arn: str) -> Caller | None:
        """The role of that ARN; None where no stack made it, whose policies nobody knows here."""
        for resource, made in self._existing("AWS::IAM::Role"):
            if made.attributes["Arn"] == arn:
                return Caller(arn, tuple(self._statements(resource, made)))
        return None

    def behind(self, access_key: str) -> str | None:
        """The ARN of the role whose credentials these are."""
        for _, made in self._existing("AWS::IAM::Role"):
            arn = str(made.attributes["Arn"])
            if Caller(arn, ()).access_key == access_key:
                return arn
        return None

    def refuse_missing(self, function: Resource, made: Made, caller: Caller) -> None:
        """Refuse a function whose role lacks what Lambda does in its name.

        Raises:
            DeploymentError: it may not write its log, be in its network, or hand on what failed.
        """
        for why, action, resource in self._needs(function, made):
            if not is_allowed(caller.statements, action, resource, {}):
                raise DeploymentError(
                    f"the function {made.ref} may not {why}: {caller.arn} is not authorized to perform: "
                    f"{action} on resource: {resource}"
                )

    def _needs(self, function: Resource, made: Made) -> Iterator[tuple[str, str, str]]:
        properties = function.properties
        group = properties.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{made.ref}")
        stream = f"arn:aws:logs:{function.region}:{function.account}:log-group:{group}:log-stream:1"
        for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
            yield "write its log", action, stream
        if properties.get("VpcConfig", {}).get("SubnetIds"):
            for action in _INTERFACES:
                yield "be in its network", action, "*"
        for resource, _ in self._existing("AWS::Lambda::EventInvokeConfig"):
            if resource.properties["FunctionName"] == made.ref:
                failed = resource.properties.get("DestinationConfig", {}).get("OnFailure", {})
                if ":sqs:" in failed.get("Destination", ""):
                    yield "hand on what failed", "sqs:SendMessage", failed["Destination"]

    def _statements(self, role: Resource, made: Made) -> Iterator[Statement]:
        for policy in role.properties.get("Policies", ()):
            yield from _written(policy)
        for resource, _ in self._existing("AWS::IAM::Policy"):
            if made.ref in resource.properties.get("Roles", ()):
                yield from _written(resource.properties)
        managed = {str(arn) for arn in role.properties.get("ManagedPolicyArns", ())}
        for resource, policy in self._existing("AWS::IAM::ManagedPolicy"):
            if policy.ref in managed or made.ref in resource.properties.get("Roles", ()):
                yield from _written(resource.properties)
        for arn in managed:
            actions = MANAGED.get(arn.rpartition("/")[2])
            if actions:
                yield {"Effect": "Allow", "Action": actions, "Resource": "*"}


def _written(policy: Mapping[str, Any]) -> list[Statement]:
    found = policy["PolicyDocument"]["Statement"]
    return found if isinstance(found, list) else [found]


def trust_of(
    existing: Callable[[str], Iterable[tuple[Resource, Made]]], role: str, principal: str
) -> list[Statement]:
    """The statements of a role's trust policy that speak of a service."""
    for resource, made in existing("AWS::IAM::Role"):
        if made.attributes["Arn"] == role:
            document = resource.properties["AssumeRolePolicyDocument"]["Statement"]
            found = document if isinstance(document, list) else [document]
            named = [each for each in found if principal in _services(each)]
            return [{**each, "Resource": "*"} for each in named]
    return []


def _services(statement: Statement) -> list[str]:
    services = statement.get("Principal", {}).get("Service", [])
    return services if isinstance(services, list) else [services]
