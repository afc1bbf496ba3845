"""What cdk-nag's AwsSolutions would report and is right as it is: accepted beside the code that it is about.

A stack of anybody's that holds our constructs is clean by that. What is accepted is a finding, not a rule:
cdk-nag names a wildcard's resource or a managed policy in it, so another one beside it is still reported; the
same one in another statement of the role is not told apart. It is metadata of the CDK's own
(`Validations.acknowledge`), which cdk-nag 3 reads and no template shows.
https://github.com/cdklabs/cdk-nag#acknowledging-a-rule (read 2026-12-01)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import IConstruct

PACK = "AwsSolutions"
VPC_POLICY = "service-role/AWSLambdaVPCAccessExecutionRole"
INTO_A_NETWORK = "Lambda asks for this policy to put a function into a network"
CDK_S_OWN = "the CDK builds and updates it"


def accept(where: IConstruct, reason: str, *findings: str) -> None:
    """Accept findings such as `SQS3` or `IAM5[Resource::*]` on `where` and what it holds."""
    cdk.Validations.of(where).acknowledge(
        *(cdk.Acknowledgment(id=f"{PACK}-{finding}", reason=reason) for finding in findings)
    )


def accept_wildcards(role: iam.Role, reason: str, *resources: str) -> None:
    """Accept that policies of `role` name these resources, each with a `*` in it; they may hold tokens."""
    flat = map(_flat, _resolved(role, resources))
    accept(role, reason, *(f"IAM5[Resource::{text}]" for text in flat))


def accept_managed_policies(role: iam.Role, reason: str, *names: str) -> None:
    """Accept that `role` carries these policies of AWS's, each by its name with its path."""
    accept(role, reason, *(f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]" for name in names))


def accept_what_cdk_builds(inside: IConstruct, *also: str) -> None:
    """Accept the roles and runtimes that the CDK itself made below `inside`, as they are by now."""
    made = inside.node.find_all()
    managed = [found.managed_policy_arns for found in made if isinstance(found, iam.CfnRole)]
    own = [found.policy_document for found in made if isinstance(found, iam.CfnPolicy)]
    documents, arns = _resolved(inside, (own, [entry for entry in managed if entry]))
    findings = dict.fromkeys(("L1", *also))
    findings |= dict.fromkeys(f"IAM4[Policy::{_flat(arn)}]" for role in arns for arn in role)
    findings |= dict.fromkeys(f"IAM5[{text}]" for document in documents for text in _wildcards(document))
    accept(inside, CDK_S_OWN, *findings)


def _resolved(where: IConstruct, values: Sequence[Any]) -> list[Any]:
    """Each value with its tokens resolved, all in one step: every step asks another process."""
    if all(isinstance(value, str) and "${Token[" not in value for value in values):
        return list(values)
    return list(cdk.Stack.of(where).resolve(list(values)))


def _wildcards(document: Mapping[str, Any]) -> Iterator[str]:
    for statement in document.get("Statement", ()):
        for kind in ("Action", "Resource"):
            entries = statement.get(kind, ())
            for entry in entries if isinstance(entries, list) else (entries,):
                if "*" in _flat(entry):
                    yield f"{kind}::{_flat(entry)}"


def _flat(value: Any) -> str:
    """A property as cdk-nag names it in a finding: a reference in pointed brackets, a join joined."""
    if isinstance(value, str):
        return value.replace("${", "<").replace("}", ">")
    if isinstance(value, Mapping):
        if "Fn::Join" in value:
            delimiter, parts = value["Fn::Join"]
            return str(delimiter.join(map(_flat, parts)))
        if "Fn::Sub" in value:
            return _flat(value["Fn::Sub"])
        if "Fn::GetAtt" in value:
            return "<{}.{}>".format(*map(_flat, value["Fn::GetAtt"]))
        if "Ref" in value:
            return f"<{_flat(value['Ref'])}>"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
