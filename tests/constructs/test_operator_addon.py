"""AWS's operator: after all that it looks for, with names as AWS's managed policies demand them."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from fakes_templates import REGION, depends_on, resources, synthesize, template_of, the

from hypertier.catalog.addons import INFERENCE_OPERATOR as ADDON
from hypertier.catalog.addons import OPERATOR_PREREQUISITES
from hypertier.catalog.operator import ADDON_VERSIONS
from hypertier.errors import ConfigError
from hypertier_cdk import HyperPodCluster, InferenceOperator, InstanceGroup, Network
from hypertier_cdk.review.access import trusted_by

SYSTEM = InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1)
MANIFEST = {
    "apiVersion": "inference.sagemaker.aws.amazon.com/v1",
    "kind": "InferenceEndpointConfig",
    "metadata": {"name": "llama"},
}


def cluster_of(stack: cdk.Stack) -> HyperPodCluster:
    return HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network"),
        kubernetes_version="1.35",
        instance_groups=[SYSTEM],
        name="test",
    )


def build(stack: cdk.Stack, **settings: Any) -> None:
    cluster = cluster_of(stack)
    operator = InferenceOperator(stack, "Operator", cluster=cluster, **settings)
    cluster.add_manifest("Endpoint", [MANIFEST], operator.ready)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return synthesize(
        lambda stack: build(stack, read_buckets=["weights"], gated_models=True, custom_domains=True)
    )


def addon(template: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    (found,) = [
        (logical_id, resource["Properties"])
        for logical_id, resource in resources(template, "AWS::EKS::Addon").items()
        if resource["Properties"]["AddonName"] == name
    ]
    return found


def text_of(value: Any) -> str:
    """A joined string with the logical ids of what it refers to in angle brackets."""
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        return "".join(text_of(part) for part in value["Fn::Join"][1])
    return f"<{value['Ref'] if 'Ref' in value else value['Fn::GetAtt'][0]}>"


def configuration(template: dict[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(text_of(addon(template, ADDON)[1]["ConfigurationValues"]))
    return loaded


def role_behind(template: dict[str, Any], arn: str) -> dict[str, Any]:
    properties: dict[str, Any] = template["Resources"][arn.strip("<>")]["Properties"]
    return properties


@pytest.mark.parametrize("name", OPERATOR_PREREQUISITES)
def test_the_operator_comes_after_its_prerequisites_and_they_after_the_nodes(
    template: dict[str, Any], name: str
) -> None:
    operator, _ = addon(template, ADDON)
    prerequisite, _ = addon(template, name)
    (waiter,) = resources(template, "Custom::HypertierNodeReadiness")

    assert prerequisite in depends_on(template, operator)
    assert waiter in depends_on(template, prerequisite)


def test_every_policy_of_its_roles_is_there_before_the_operator(template: dict[str, Any]) -> None:
    operator, _ = addon(template, ADDON)
    policies = {name for name in resources(template, "AWS::IAM::Policy") if name.startswith("Operator")}

    assert len(policies) == 3
    assert policies <= depends_on(template, operator)


def test_an_endpoint_comes_after_the_operator_and_so_goes_before_it(template: dict[str, Any]) -> None:
    operator, _ = addon(template, ADDON)
    (endpoint,) = [
        logical_id
        for logical_id, resource in resources(template, "Custom::AWSCDK-EKS-KubernetesResource").items()
        if "InferenceEndpointConfig" in str(resource["Properties"]["Manifest"])
    ]
    (cluster,) = resources(template, "AWS::SageMaker::Cluster")

    assert operator in depends_on(template, endpoint)
    assert cluster in depends_on(template, operator)


def test_the_operator_s_role_is_named_as_the_managed_policy_demands(template: dict[str, Any]) -> None:
    role = role_behind(template, configuration(template)["executionRoleArn"])

    assert role["RoleName"].startswith("SageMakerHyperPodInference")
    assert len(role["RoleName"]) <= 64
    assert REGION in role["RoleName"]


def test_the_bucket_is_named_as_the_managed_policy_demands_and_closed(template: dict[str, Any]) -> None:
    bucket = the(template, "AWS::S3::Bucket")

    name = text_of(bucket["BucketName"])
    assert name.startswith("hyperpod-tls-<AWS::AccountId>-us-west-2-")
    assert len(name.replace("<AWS::AccountId>", "1" * 12)) <= 63
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert (
        configuration(template)["tlsCertificateS3Bucket"]
        == f"<{next(iter(resources(template, 'AWS::S3::Bucket')))}>"
    )


@pytest.mark.parametrize(
    ("path", "account"),
    [
        pytest.param(("executionRoleArn",), "hyperpod-inference-controller-manager", id="the operator"),
        pytest.param(
            ("alb", "serviceAccount", "roleArn"),
            "aws-load-balancer-controller",
            id="the load balancer controller",
        ),
        pytest.param(("keda", "auth", "aws", "irsa", "roleArn"), "keda-operator", id="KEDA"),
    ],
)
def test_a_role_trusts_its_own_service_account(
    template: dict[str, Any], path: tuple[str, ...], account: str
) -> None:
    arn: Any = configuration(template)
    for key in path:
        arn = arn[key]

    trusted = trusted_by(role_behind(template, arn)["AssumeRolePolicyDocument"])[0]

    condition = json.dumps(trusted["Condition"]["StringEquals"])
    assert f"system:serviceaccount:hyperpod-inference-system:{account}" in condition


def test_sagemaker_may_assume_the_operator_s_role_too(template: dict[str, Any]) -> None:
    role = role_behind(template, configuration(template)["executionRoleArn"])

    services = [entry["Principal"].get("Service") for entry in trusted_by(role["AssumeRolePolicyDocument"])]
    assert "sagemaker.amazonaws.com" in services


def test_gated_models_are_downloaded_by_service_accounts_of_any_namespace(template: dict[str, Any]) -> None:
    role = role_behind(template, configuration(template)["jumpstartGatedModelDownloadRoleArn"])

    assert "StringLike" in trusted_by(role["AssumeRolePolicyDocument"])[0]["Condition"]


def test_the_operator_is_told_its_cluster_and_nothing_that_was_not_asked_for() -> None:
    template = synthesize(build)

    values = configuration(template)
    assert values["hyperpodClusterArn"] == f"<{next(iter(resources(template, 'AWS::SageMaker::Cluster')))}>"
    assert "jumpstartGatedModelDownloadRoleArn" not in values
    assert addon(template, ADDON)[1]["AddonVersion"] == ADDON_VERSIONS["3.7"]


def test_the_gateway_is_off_until_it_is_asked_for_and_unknown_to_older_releases(
    template: dict[str, Any],
) -> None:
    older = synthesize(lambda stack: build(stack, version="3.4"))

    assert configuration(template)["inferenceGateway"] == {"enabled": False}
    assert "inferenceGateway" not in configuration(older)


def test_the_gateway_s_controller_imports_certificates_by_a_role_of_its_own() -> None:
    template = synthesize(lambda stack: build(stack, gateway=True))

    gateway = configuration(template)["inferenceGateway"]
    role = role_behind(template, gateway["serviceAccount"]["roleArn"])
    trusted = trusted_by(role["AssumeRolePolicyDocument"])[0]["Condition"]["StringEquals"]
    account = "system:serviceaccount:hyperpod-inference-system:inference-gateway-controller"
    assert gateway["enabled"] is True
    assert account in json.dumps(trusted)
    assert "AmazonSageMakerHyperPodInferenceGatewayAccess" in json.dumps(role["ManagedPolicyArns"])


def test_a_gateway_that_the_release_does_not_bring_is_refused() -> None:
    stack = cdk.Stack(cdk.App(), "Test", env=cdk.Environment(region=REGION))

    with pytest.raises(ConfigError) as refused:
        InferenceOperator(stack, "Operator", cluster=cluster_of(stack), version="3.4", gateway=True)

    assert refused.value.setting == "version"


def test_load_balancers_that_somebody_else_made_are_left_alone(template: dict[str, Any]) -> None:
    arn = configuration(template)["alb"]["serviceAccount"]["roleArn"].strip("<>")
    (policy,) = [
        found["Properties"]["PolicyDocument"]["Statement"]
        for found in resources(template, "AWS::IAM::Policy").values()
        if found["Properties"]["Roles"] == [{"Ref": arn}]
    ]

    deletes = [
        statement
        for statement in policy
        if any(
            "DeleteLoadBalancer" in action or "DeleteSecurityGroup" in action
            for action in statement["Action"]
        )
    ]
    assert deletes
    assert all(
        "aws:ResourceTag/elbv2.k8s.aws/cluster" in statement["Condition"]["Null"] for statement in deletes
    )


def test_the_operator_may_stand_in_a_later_stack_than_its_cluster() -> None:
    app = cdk.App()
    first, later = (cdk.Stack(app, name, env=cdk.Environment(region=REGION)) for name in ("First", "Later"))
    cluster = cluster_of(first)

    InferenceOperator(later, "Operator", cluster=cluster)

    assert ADDON in json.dumps(template_of(later))
    assert first in later.dependencies


@pytest.mark.parametrize(
    ("region", "version", "setting"),
    [
        pytest.param("us-west-2", "3.5", "version", id="a release that is no add-on"),
        pytest.param("us-west-2", "", "version", id="no release"),
        pytest.param("eu-west-3", "3.7", "region", id="a Region without the images"),
    ],
)
def test_an_operator_that_cannot_be_is_refused_with_the_setting(
    region: str, version: str, setting: str
) -> None:
    stack = cdk.Stack(cdk.App(), "Test", env=cdk.Environment(region=region))

    with pytest.raises(ConfigError) as refused:
        InferenceOperator(stack, "Operator", cluster=cluster_of(stack), version=version)

    assert refused.value.setting == setting
