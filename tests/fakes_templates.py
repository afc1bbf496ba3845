"""Constructs synthesized in memory, and what one asks of a template."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk

REGION = "us-west-2"
UNSTAGED = {"aws:cdk:disable-asset-staging": True}
"""Context of an app whose assets stay where they are: copies of tens of MB for each app would fill a disk."""


def new_stack(name: str = "Test", *, deployed: bool = False) -> cdk.Stack:
    """An empty stack of an app of its own, in a Region but no account; with its assets where `deployed`."""
    return cdk.Stack(
        cdk.App(context=None if deployed else UNSTAGED), name, env=cdk.Environment(region=REGION)
    )


def synthesize(build: Callable[[cdk.Stack], object]) -> dict[str, Any]:
    """The template of a stack that holds what `build` puts into it."""
    stack = new_stack()
    build(stack)
    return template_of(stack)


def template_of(stack: cdk.Stack) -> dict[str, Any]:
    """The stack's template as CloudFormation gets it."""
    app = stack.node.root
    assert isinstance(app, cdk.App)
    template = app.synth().get_stack_by_name(stack.stack_name).template
    loaded: dict[str, Any] = json.loads(json.dumps(template))
    return loaded


def resources(template: dict[str, Any], resource_type: str) -> dict[str, dict[str, Any]]:
    """All resources of a type, by logical id."""
    return {
        logical_id: resource
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == resource_type
    }


def properties(template: dict[str, Any], resource_type: str) -> list[dict[str, Any]]:
    """The properties of all resources of a type."""
    return [resource.get("Properties", {}) for resource in resources(template, resource_type).values()]


def the(template: dict[str, Any], resource_type: str) -> dict[str, Any]:
    """The properties of the one resource of a type."""
    found = properties(template, resource_type)
    assert len(found) == 1, f"{len(found)} of {resource_type}"
    return found[0]


def statements(template: dict[str, Any]) -> list[dict[str, Any]]:
    """Every statement of every inline IAM policy."""
    documents = [
        policy["PolicyDocument"]
        for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        for policy in properties(template, kind)
    ]
    documents += [
        policy["PolicyDocument"]
        for role in properties(template, "AWS::IAM::Role")
        for policy in role.get("Policies", [])
    ]
    return [statement for document in documents for statement in document["Statement"]]


def permissions(template: dict[str, Any], role: str) -> list[dict[str, Any]]:
    """Every statement of what a role may do, from the role itself and from policies beside it."""
    policies = [*template["Resources"][role]["Properties"].get("Policies", [])]
    policies += [
        policy for policy in properties(template, "AWS::IAM::Policy") if {"Ref": role} in policy["Roles"]
    ]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def depends_on(template: dict[str, Any], logical_id: str) -> set[str]:
    """Everything that CloudFormation creates before a resource: by DependsOn, Ref and GetAtt, however far."""
    seen: set[str] = set()
    todo = [logical_id]
    while todo:
        resource = template["Resources"][todo.pop()]
        named = resource.get("DependsOn", [])
        direct = {named} if isinstance(named, str) else set(named)
        direct |= _references(resource.get("Properties", {}))
        new = {other for other in direct if other in template["Resources"]} - seen
        seen |= new
        todo += new
    return seen


def _references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {found for entry in value for found in _references(entry)}
    if not isinstance(value, dict):
        return set()
    if set(value) == {"Ref"}:
        return {value["Ref"]}
    if set(value) == {"Fn::GetAtt"}:
        got = value["Fn::GetAtt"]
        return {got[0] if isinstance(got, list) else got.partition(".")[0]}
    return {found for entry in value.values() for found in _references(entry)}
