"""Kubernetes objects reach the template as the CDK's own class writes them, whatever tokens they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from fakes_adopted import adopt_eks, adopt_network
from fakes_templates import new_stack, template_of, the

from hypertier_cdk.manifest import new_manifest

TYPE = "Custom::AWSCDK-EKS-KubernetesResource"


def cluster_in(stack: cdk.Stack) -> eks.ICluster:
    return adopt_eks(stack, adopt_network(stack)).cluster


def config_map(**data: Any) -> list[dict[str, Any]]:
    metadata = {"name": 'quoted "name"', "labels": {"team": "search"}}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}]


def written_by_the_cdk(objects: Sequence[Mapping[str, Any]], stack: cdk.Stack) -> dict[str, Any]:
    eks.KubernetesManifest(
        stack, "Manifest", cluster=cluster_in(stack), manifest=[dict(entry) for entry in objects]
    )
    return the(template_of(stack), TYPE)


def written_by_us(
    objects: Sequence[Mapping[str, Any]], stack: cdk.Stack, plain: Sequence[str]
) -> tuple[dict[str, Any], Construct]:
    made = new_manifest(
        stack, "Manifest", cluster=cluster_in(stack), objects=objects, overwrite=True, plain=plain
    )
    return the(template_of(stack), TYPE), made


def queue_arn(stack: cdk.Stack) -> str:
    return sqs.Queue(stack, "Queue").queue_arn


@pytest.mark.parametrize(
    ("value", "is_plain", "is_text"),
    [
        pytest.param(lambda _: 'two\nlines, "quoted" and ünïcode', False, True, id="no token"),
        pytest.param(lambda _: {"deep": [1, 2.5, True, {}, []]}, False, True, id="values of every kind"),
        pytest.param(lambda _: {"left": "out", "null": None}, False, False, id="nothing"),
        pytest.param(queue_arn, True, True, id="a token known to be plain"),
        pytest.param(queue_arn, False, False, id="a token of which nothing is known"),
        pytest.param(
            lambda stack: stack.to_json_string({"arn": queue_arn(stack)}), False, False, id="JSON in a token"
        ),
        pytest.param(
            lambda _: cdk.Token.as_number(cdk.Fn.ref("AWS::AccountId")),
            False,
            False,
            id="a number in a token",
        ),
        pytest.param(
            lambda _: cdk.Token.as_list(cdk.Fn.ref("AWS::NotificationARNs")),
            False,
            False,
            id="a list in a token",
        ),
    ],
)
def test_objects_read_as_the_cdk_s_own_class_writes_them(value: Any, is_plain: bool, is_text: bool) -> None:
    theirs, ours = new_stack(), new_stack()
    given = value(ours)

    expected = written_by_the_cdk(config_map(value=value(theirs)), theirs)
    found, made = written_by_us(config_map(value=given), ours, [given] if is_plain else [])

    assert found == {**expected, "Overwrite": True}
    assert isinstance(made, eks.KubernetesManifest) is not is_text


def test_a_number_in_a_token_is_known_however_many_tokens_there_are() -> None:
    stack = new_stack()
    # The CDK counts its tokens, and a number's digits tell which one it is.
    numbers = [cdk.Token.as_number({"Ref": "AWS::AccountId"}) for _ in range(3000)]

    _, made = written_by_us(config_map(value=numbers[-1]), stack, [])

    assert isinstance(made, eks.KubernetesManifest)
