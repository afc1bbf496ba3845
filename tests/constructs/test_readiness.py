"""The wait for nodes, as resources: what it waits for, what it may do, what comes before and after."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from fakes_templates import depends_on, new_stack, permissions, resources, synthesize, the

from hypertier.errors import ConfigError
from hypertier_cdk import HyperPodCluster, InstanceGroup, Network
from hypertier_cdk.cluster import first_nodes
from hypertier_cdk.readiness import NodeReadiness

WAITER = "Custom::HypertierNodeReadiness"
GPU = InstanceGroup(name="gpu", instance_type="ml.p5.48xlarge", count=7)
SYSTEM = InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=3)
EMPTY = InstanceGroup(name="later", instance_type="ml.m5.4xlarge", count=0)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        pytest.param([SYSTEM, GPU], {"system": 1}, id="one of the nodes without GPUs"),
        pytest.param([GPU], {"gpu": 1}, id="one with GPUs where there are no others"),
        pytest.param([EMPTY, GPU], {"gpu": 1}, id="none of an empty group"),
        pytest.param([EMPTY], {}, id="none where all groups are empty"),
    ],
)
def test_a_deployment_waits_for_the_first_nodes(
    groups: list[InstanceGroup], expected: dict[str, int]
) -> None:
    assert first_nodes(groups) == expected


def test_the_wait_names_the_cluster_and_ends_before_cloudformation_does(reference: Any) -> None:
    waiter = the(reference.template, WAITER)

    assert waiter["Groups"] == {"system": "1"}
    assert waiter["HyperPodName"] == "reference"
    assert int(waiter["TimeoutSeconds"]) < 3600


def test_the_function_gives_up_before_the_framework_does(reference: Any) -> None:
    waiter = the(reference.template, WAITER)
    machine = the(reference.template, "AWS::StepFunctions::StateMachine")

    definition = json.dumps(machine["DefinitionString"])
    attempts = int(definition.partition('MaxAttempts\\":')[2].partition(",")[0])
    interval = int(definition.partition('IntervalSeconds\\":')[2].partition(",")[0])
    assert int(waiter["TimeoutSeconds"]) < attempts * interval < 3600


@pytest.mark.parametrize(
    "kind", ["AWS::SageMaker::Cluster", "AWS::EKS::AccessEntry", "Custom::AWSCDK-EKS-KubernetesResource"]
)
def test_the_wait_comes_after_what_it_needs(reference: Any, kind: str) -> None:
    (waiter,) = resources(reference.template, WAITER)

    assert depends_on(reference.template, waiter) & set(resources(reference.template, kind))


def test_the_functions_may_list_nodes_and_describe_this_cluster_alone(reference: Any) -> None:
    (entry,) = [
        entry["Properties"]
        for entry in resources(reference.template, "AWS::EKS::AccessEntry").values()
        if entry["Properties"].get("KubernetesGroups") == ["hypertier-readiness"]
    ]
    manifests = [
        json.dumps(manifest["Properties"]["Manifest"])
        for manifest in resources(reference.template, "Custom::AWSCDK-EKS-KubernetesResource").values()
    ]
    role = entry["PrincipalArn"]["Fn::GetAtt"][0]
    (describe,) = [
        statement
        for statement in permissions(reference.template, role)
        if "eks:DescribeCluster" in statement["Action"]
    ]

    (rules,) = [text for text in manifests if "hypertier-readiness" in text]
    assert "AccessPolicies" not in entry
    assert describe["Resource"]["Fn::GetAtt"][1] == "Arn"
    assert '\\"resources\\":[\\"nodes\\"],\\"verbs\\":[\\"list\\"]' in rules


def test_without_any_node_to_wait_for_nothing_waits() -> None:
    def build(stack: cdk.Stack) -> None:
        cluster = HyperPodCluster(
            stack,
            "Cluster",
            network=Network(stack, "Network"),
            kubernetes_version="1.35",
            instance_groups=[EMPTY],
            name="test",
            autoscaling=True,
        )
        assert cluster.nodes_ready is cluster.resource

    template = synthesize(build)

    assert not resources(template, WAITER)


@pytest.mark.parametrize(
    ("closed", "api_cidrs"),
    [
        pytest.param(True, None, id="a closed network"),
        pytest.param(False, [], id="a private API"),
        pytest.param(False, ["192.0.2.0/24"], id="an API for some"),
    ],
)
def test_where_the_kubernetes_api_is_not_open_the_functions_stand_inside_and_reach_it(
    closed: bool, api_cidrs: list[str] | None
) -> None:
    template = synthesize(
        lambda stack: HyperPodCluster(
            stack,
            "Cluster",
            network=Network(stack, "Network", closed=closed),
            kubernetes_version="1.35",
            instance_groups=[SYSTEM],
            api_cidrs=api_cidrs,
            name="test",
        )
    )

    inside = [
        function["Properties"]["VpcConfig"]
        for function in resources(template, "AWS::Lambda::Function").values()
        if "readiness" in function["Properties"]["Handler"]
    ]
    assert len(inside) == 2
    (group,) = inside[0]["SecurityGroupIds"]
    rules = resources(template, "AWS::EC2::SecurityGroupIngress").values()
    assert any(
        rule["Properties"].get("SourceSecurityGroupId") == group and rule["Properties"]["ToPort"] == 443
        for rule in rules
        if "ToPort" in rule["Properties"]
    )


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        pytest.param({"timeout": cdk.Duration.minutes(56)}, "timeout", id="longer than CloudFormation waits"),
        pytest.param({"timeout": cdk.Duration.seconds(10)}, "timeout", id="shorter than one look"),
        pytest.param({"nodes_by_group": {}}, "nodes_by_group", id="no group"),
    ],
)
def test_a_wait_that_cannot_be_is_refused_with_the_setting(
    reference: Any, settings: dict[str, Any], setting: str
) -> None:
    chosen = {"nodes_by_group": {"system": 1}} | settings

    with pytest.raises(ConfigError) as refused:
        NodeReadiness(
            new_stack(),
            "Ready",
            eks_cluster=reference.cluster.eks_cluster,
            network=reference.network,
            inside=False,
            hyperpod_name="test",
            after=reference.cluster.resource,
            **chosen,
        )

    assert refused.value.setting == setting


def test_the_two_functions_carry_the_code_once(reference: Any) -> None:
    keys = {
        function["Properties"]["Code"]["S3Key"]
        for function in resources(reference.template, "AWS::Lambda::Function").values()
        if "readiness" in function["Properties"]["Handler"]
    }

    assert len(keys) == 1
