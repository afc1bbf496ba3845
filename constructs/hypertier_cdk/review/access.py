"""Who may do what: every statement broader than one resource, and every policy that AWS wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypertier_cdk.review.templates import Assembly, Resource, listed, strings_in, text_of


@dataclass(frozen=True, slots=True)
class BroadStatement:
    """An allowed action whose resource holds a wildcard. `conditions` are what still narrows it."""

    stack: str
    holder: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: str


@dataclass(frozen=True, slots=True)
class ManagedPolicy:
    """A policy that AWS wrote and may change, on a role of ours."""

    stack: str
    holder: str
    name: str


def broad_statements(assembly: Assembly) -> tuple[BroadStatement, ...]:
    """Every allowing statement of a role or policy whose resource names more than one thing."""
    found = []
    for resource in assembly.resources:
        for statement in _statements(resource):
            resources = tuple(text_of(entry) for entry in listed(statement.get("Resource")))
            broad = [text for text in resources if "*" in text]
            if statement.get("Effect") != "Allow" or not (broad or "NotResource" in statement):
                continue
            condition = statement.get("Condition")
            found.append(
                BroadStatement(
                    stack=resource.stack,
                    holder=resource.path,
                    actions=tuple(text_of(entry) for entry in listed(statement.get("Action"))),
                    resources=tuple(broad) or ("everything but what NotResource names",),
                    conditions=text_of(condition) if condition else "",
                )
            )
    return tuple(found)


def managed_policies(assembly: Assembly) -> tuple[ManagedPolicy, ...]:
    """Every AWS managed policy that a role carries."""
    return tuple(
        ManagedPolicy(role.stack, role.path, text.rpartition(":policy/")[2])
        for role in assembly.of_type("AWS::IAM::Role")
        for arn in listed(role.get("ManagedPolicyArns"))
        if ":policy/" in (text := text_of(arn))
    )


def _statements(resource: Resource) -> Iterator[Mapping[str, Any]]:
    documents: list[Any] = []
    if resource.type == "AWS::IAM::Role":
        documents = [policy.get("PolicyDocument") for policy in resource.get("Policies", default=())]
    elif resource.type in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        documents = [resource.get("PolicyDocument")]
    for document in documents:
        yield from listed((document or {}).get("Statement"))


def trusted_by(document: Any) -> Sequence[Mapping[str, Any]]:
    """The statements of a trust or resource policy, which may be an object or its text."""
    if isinstance(document, Mapping) and "Statement" in document:
        return listed(document["Statement"])
    return listed(json.loads(text_of(document))["Statement"]) if document else ()


def open_principals(assembly: Assembly) -> tuple[str, ...]:
    """Trust and resource policies that allow anybody, without a condition."""
    return tuple(
        f"{resource.stack}: {resource.path} allows everybody "
        + ", ".join(map(text_of, listed(statement.get("Action"))))
        for resource in assembly.resources
        for name in ("AssumeRolePolicyDocument", "PolicyDocument", "KeyPolicy", "ResourcePolicy")
        for statement in trusted_by(resource.get(name))
        if statement.get("Effect") == "Allow"
        and "*" in set(strings_in(statement.get("Principal")))
        and not statement.get("Condition")
    )
