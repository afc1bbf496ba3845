"""A cluster that exists already: workloads come onto it, and nothing of it is made, changed or deleted."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from fakes_templates import depends_on, new_stack, resources, synthesize, the

from hypertier.errors import ConfigError
from hypertier_cdk import AdoptedCluster, CacheStore, Network, Observability

ARN = "arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefghijkl"
OIDC = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/ABC"
OBJECTS = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inference"}}]


def adopt(stack: cdk.Stack, **settings: Any) -> AdoptedCluster:
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Mine",
        vpc_id="vpc-1",
        availability_zones=["us-west-2a", "us-west-2b"],
        private_subnet_ids=["subnet-1", "subnet-2"],
    )
    chosen = {
        "name": "mine",
        "cluster_arn": ARN,
        "eks_cluster_name": "my-eks",
        "kubernetes_version": "1.34",
        "eks_security_group_id": "sg-eks",
        "node_security_group_id": "sg-nodes",
    } | settings
    return AdoptedCluster(stack, "Cluster", network=Network(stack, "Network", existing=vpc), **chosen)


def test_nothing_that_exists_is_made_a_second_time() -> None:
    template = synthesize(adopt)

    made = {resource["Type"] for resource in template["Resources"].values()}
    assert not made & {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::Subnet",
        "AWS::EC2::VPC",
        "AWS::EKS::Addon",
        "AWS::EKS::Cluster",
        "AWS::SageMaker::Cluster",
    }


def test_manifests_reach_the_adopted_cluster_once_the_function_is_let_in() -> None:
    template = synthesize(lambda stack: adopt(stack).add_manifest("Namespace", OBJECTS))

    (manifest,) = resources(template, "Custom::AWSCDK-EKS-KubernetesResource")
    (entry,) = resources(template, "AWS::EKS::AccessEntry")
    assert template["Resources"][manifest]["Properties"]["ClusterName"] == "my-eks"
    assert template["Resources"][entry]["Properties"]["ClusterName"] == "my-eks"
    assert entry in depends_on(template, manifest)


def test_pods_get_their_role_by_pod_identity_of_the_adopted_cluster() -> None:
    template = synthesize(lambda stack: adopt(stack).pod_role("Engine", "inference", "engine"))

    association = the(template, "AWS::EKS::PodIdentityAssociation")
    role = template["Resources"][association["RoleArn"]["Fn::GetAtt"][0]]
    assert association["ClusterName"] == "my-eks"
    assert ":cluster/my-eks" in json.dumps(role["Properties"]["AssumeRolePolicyDocument"])


def test_a_store_lets_the_adopted_nodes_in_without_touching_their_group() -> None:
    def build(stack: cdk.Stack) -> None:
        cluster = adopt(stack)
        store = CacheStore(
            stack, "L2", vpc=cluster.network.vpc, bandwidth_bytes_per_second=10**9, size_bytes=2**30
        )
        store.connections.allow_default_port_from(cluster.node_security_group)

    template = synthesize(build)

    groups = [rule["Properties"] for rule in resources(template, "AWS::EC2::SecurityGroupIngress").values()]
    assert [group["SourceSecurityGroupId"] for group in groups] == ["sg-nodes"]
    assert not [group for group in groups if group["GroupId"] == "sg-nodes"]
    assert not resources(template, "AWS::EC2::SecurityGroupEgress")


def test_buckets_are_mounted_by_the_cluster_s_own_oidc_provider() -> None:
    template = synthesize(lambda stack: adopt(stack, oidc_provider_arn=OIDC).read_bucket("weights"))

    (role,) = [
        entry["Properties"]
        for entry in resources(template, "AWS::IAM::Role").values()
        if "oidc-provider" in str(entry["Properties"]["AssumeRolePolicyDocument"])
    ]
    assert role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Federated": OIDC}
    assert not resources(template, "AWS::IAM::OIDCProvider")


def test_without_the_oidc_provider_what_needs_it_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError) as refused:
        adopt(new_stack()).read_bucket("weights")

    assert refused.value.setting == "oidc_provider_arn"


def test_the_cluster_s_id_is_asked_for_not_its_name() -> None:
    with pytest.raises(ConfigError, match="describe-cluster --cluster-name mine"):
        adopt(new_stack(), cluster_arn="arn:aws:sagemaker:us-west-2:123456789012:cluster/mine")


def test_observability_can_be_added_to_an_adopted_cluster() -> None:
    template = synthesize(lambda stack: Observability(stack, "Observability", cluster=adopt(stack)))

    assert the(template, "AWS::EKS::Addon")["ClusterName"] == "my-eks"
