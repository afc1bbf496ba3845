"""EKS add-ons: what comes before the nodes, what after, and storage drivers when something mounts."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from fakes_templates import depends_on, resources, synthesize

from hypertier.catalog.addons import AFTER_NODES, BEFORE_NODES, FSX_DRIVER, S3_DRIVER
from hypertier_cdk import HyperPodCluster, InstanceGroup, Network
from hypertier_cdk.review.access import trusted_by

SYSTEM = InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1)


def cluster_of(stack: cdk.Stack, **settings: Any) -> HyperPodCluster:
    return HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network"),
        kubernetes_version="1.35",
        instance_groups=[SYSTEM],
        name="test",
        **settings,
    )


def addon(template: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    (found,) = [
        (logical_id, resource["Properties"])
        for logical_id, resource in resources(template, "AWS::EKS::Addon").items()
        if resource["Properties"]["AddonName"] == name
    ]
    return found


@pytest.mark.parametrize("name", BEFORE_NODES)
def test_nodes_come_after_the_add_ons_they_need(reference: Any, name: str) -> None:
    (cluster,) = resources(reference.template, "AWS::SageMaker::Cluster")

    before = depends_on(reference.template, cluster)

    assert addon(reference.template, name)[0] in before


@pytest.mark.parametrize("name", AFTER_NODES)
def test_add_ons_with_pods_come_after_the_first_nodes(reference: Any, name: str) -> None:
    (waiter,) = resources(reference.template, "Custom::HypertierNodeReadiness")

    assert waiter in depends_on(reference.template, addon(reference.template, name)[0])


def test_eks_installs_no_add_on_of_its_own_accord(reference: Any) -> None:
    (cluster,) = resources(reference.template, "AWS::EKS::Cluster").values()

    assert cluster["Properties"]["BootstrapSelfManagedAddons"] is False


def test_network_policies_have_an_effect(reference: Any) -> None:
    configuration = json.loads(addon(reference.template, "vpc-cni")[1]["ConfigurationValues"])

    assert configuration == {"enableNetworkPolicy": "true"}


def test_an_add_on_s_version_can_be_pinned() -> None:
    template = synthesize(lambda stack: cluster_of(stack, addon_versions={"vpc-cni": "v1.20.4-eksbuild.1"}))

    assert addon(template, "vpc-cni")[1]["AddonVersion"] == "v1.20.4-eksbuild.1"
    assert "AddonVersion" not in addon(template, "kube-proxy")[1]


def test_without_a_mount_there_is_no_storage_driver(reference: Any) -> None:
    addons = resources(reference.template, "AWS::EKS::Addon").values()
    names = {resource["Properties"]["AddonName"] for resource in addons}

    assert names == {*BEFORE_NODES, *AFTER_NODES}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def mounting(stack: cdk.Stack) -> None:
    cluster = cluster_of(stack)
    for bucket in ("weights-a", "weights-b"):
        driver = cluster.read_bucket(bucket)
        assert driver is cluster.read_bucket(bucket)
    cluster.add_manifest(
        "Volume",
        [{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "weights"}}],
        driver,
        cluster.mount_fsx(),
    )


def test_the_driver_for_s3_reads_the_buckets_asked_for_and_no_others() -> None:
    template = synthesize(mounting)

    role = addon(template, S3_DRIVER)[1]["ServiceAccountRoleArn"]["Fn::GetAtt"][0]
    (policy,) = [
        found["Properties"]["PolicyDocument"]["Statement"]
        for found in resources(template, "AWS::IAM::Policy").values()
        if found["Properties"]["Roles"] == [{"Ref": role}]
    ]
    granted = {
        (statement["Action"], "".join(part for part in arn["Fn::Join"][1] if isinstance(part, str)))
        for statement in policy
        for arn in as_list(statement["Resource"])
    }
    assert granted == {
        ("s3:ListBucket", "arn::s3:::weights-a"),
        ("s3:GetObject", "arn::s3:::weights-a/*"),
        ("s3:ListBucket", "arn::s3:::weights-b"),
        ("s3:GetObject", "arn::s3:::weights-b/*"),
    }


def test_the_driver_s_role_trusts_its_own_service_account_alone() -> None:
    template = synthesize(mounting)

    role = addon(template, S3_DRIVER)[1]["ServiceAccountRoleArn"]["Fn::GetAtt"][0]
    (statement,) = trusted_by(template["Resources"][role]["Properties"]["AssumeRolePolicyDocument"])
    (provider,) = resources(template, "AWS::IAM::OIDCProvider")
    issuer = "${" + provider + "}"
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert statement["Principal"] == {"Federated": issuer}
    assert statement["Condition"] == {
        "StringEquals": {
            f"{issuer}:aud": "sts.amazonaws.com",
            f"{issuer}:sub": "system:serviceaccount:kube-system:s3-csi-driver-sa",
        }
    }
    assert not resources(template, "Custom::AWSCDKCfnJson")


@pytest.mark.parametrize("name", [S3_DRIVER, FSX_DRIVER])
def test_what_mounts_comes_after_the_driver_and_the_driver_after_the_nodes(name: str) -> None:
    template = synthesize(mounting)

    (volume,) = [
        logical_id
        for logical_id, resource in resources(template, "Custom::AWSCDK-EKS-KubernetesResource").items()
        if "PersistentVolume" in str(resource["Properties"]["Manifest"])
    ]
    (waiter,) = resources(template, "Custom::HypertierNodeReadiness")
    driver, _ = addon(template, name)
    assert driver in depends_on(template, volume)
    assert waiter in depends_on(template, driver)


def test_roles_go_by_a_native_oidc_provider_made_once() -> None:
    template = synthesize(mounting)

    assert len(resources(template, "AWS::IAM::OIDCProvider")) == 1
    assert not resources(template, "Custom::AWSCDKOpenIdConnectProvider")


def test_the_driver_for_s3_runs_on_tainted_nodes_too() -> None:
    template = synthesize(mounting)

    values = json.loads(addon(template, S3_DRIVER)[1]["ConfigurationValues"])
    assert values == {"node": {"tolerateAllTaints": True}}
