"""The observability add-on: a workspace of its own, and a collector that may write there alone."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from fakes_templates import depends_on, new_stack, permissions, resources, synthesize, the

from hypertier.catalog.addons import OBSERVABILITY as ADDON
from hypertier.errors import ConfigError
from hypertier_cdk import HyperPodCluster, InstanceGroup, Network, Observability
from hypertier_cdk.observability import SERVICE_ACCOUNT


def observed(stack: cdk.Stack, **settings: Any) -> Observability:
    cluster = HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network"),
        kubernetes_version="1.35",
        instance_groups=[InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1)],
        name="test",
    )
    return Observability(stack, "Observability", cluster=cluster, **settings)


def addon(template: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    (found,) = [
        (logical_id, resource["Properties"])
        for logical_id, resource in resources(template, "AWS::EKS::Addon").items()
        if resource["Properties"]["AddonName"] == ADDON
    ]
    return found


def configuration(template: dict[str, Any]) -> dict[str, Any]:
    parts = addon(template)[1]["ConfigurationValues"]["Fn::Join"][1]
    loaded: dict[str, Any] = json.loads(
        "".join(part if isinstance(part, str) else f"<{part['Fn::GetAtt'][1]}>" for part in parts)
    )
    return loaded


def role(template: dict[str, Any]) -> str:
    (found,) = [name for name in resources(template, "AWS::IAM::Role") if name.startswith("Observability")]
    return found


def policy(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {statement["Sid"]: statement for statement in permissions(template, role(template))}


def test_the_collector_writes_to_its_own_workspace_alone() -> None:
    template = synthesize(observed)

    (workspace,) = resources(template, "AWS::APS::Workspace")
    write = policy(template)["Write"]
    assert (write["Action"], write["Resource"]) == ("aps:RemoteWrite", {"Fn::GetAtt": [workspace, "Arn"]})
    assert configuration(template)["ampWorkspace"] == {
        "prometheusEndpoint": "<PrometheusEndpoint>",
        "arn": "<Arn>",
    }


def test_the_collector_gets_its_role_by_pod_identity() -> None:
    template = synthesize(observed)

    (association,) = addon(template)[1]["PodIdentityAssociations"]
    role = template["Resources"][association["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
    assert association["ServiceAccount"] == SERVICE_ACCOUNT
    assert role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {
        "Service": "pods.eks.amazonaws.com"
    }


def test_metrics_are_encrypted_with_a_key_of_their_own() -> None:
    template = synthesize(observed)

    key = the(template, "AWS::APS::Workspace")["KmsKeyArn"]["Fn::GetAtt"][0]
    assert template["Resources"][key]["Properties"]["EnableKeyRotation"] is True


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        pytest.param(
            None,
            {"acceleratedComputeMetrics", "customMetrics", "inferenceMetrics", "nodeMetrics"},
            id="what inference needs, by default",
        ),
        pytest.param({"networkMetrics": "ADVANCED"}, {"networkMetrics"}, id="what is asked for"),
        pytest.param({}, set(), id="none"),
    ],
)
def test_the_metrics_asked_for_are_collected(metrics: dict[str, str] | None, expected: set[str]) -> None:
    template = synthesize(lambda stack: observed(stack, metrics=metrics))

    assert set(configuration(template)["metricsProvider"]) == expected


def test_the_add_on_comes_after_the_first_nodes_and_its_role_with_its_permissions() -> None:
    template = synthesize(observed)

    before = depends_on(template, addon(template)[0])
    assert set(resources(template, "Custom::HypertierNodeReadiness")) <= before
    assert role(template) in before
    assert not [name for name in resources(template, "AWS::IAM::Policy") if name.startswith("Observability")]


@pytest.mark.parametrize(("logs", "sids"), [(True, {"Write", "Logs"}), (False, {"Write"})])
def test_logs_are_allowed_where_they_are_written(logs: bool, sids: set[str]) -> None:
    template = synthesize(lambda stack: observed(stack, logs=logs))

    assert set(policy(template)) == sids
    assert configuration(template)["logging"] == {"enabled": logs}


@pytest.mark.parametrize(
    ("metrics", "setting"),
    [
        pytest.param({"moodMetrics": "BASIC"}, "metrics", id="a category that is none"),
        pytest.param({"nodeMetrics": "SOME"}, "metrics.nodeMetrics", id="a level that is none"),
    ],
)
def test_metrics_that_cannot_be_are_refused_with_the_setting(metrics: dict[str, str], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        observed(new_stack(), metrics=metrics)

    assert refused.value.setting == setting
