"""A cluster that exists already: workloads come onto it, and nothing of it is made, changed or deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from fakes_adopted import adopt_eks, adopt_network
from fakes_templates import depends_on, new_stack, resources, synthesize, the

from hypertier.catalog.addons import INFERENCE_OPERATOR as OPERATOR
from hypertier.catalog.addons import OBSERVABILITY
from hypertier.errors import ConfigError
from hypertier_cdk import (
    CacheStore,
    CacheUtilizationScaling,
    HyperPodCluster,
    InferenceOperator,
    InstanceGroup,
    Observability,
)
from hypertier_cdk.cluster_base import ClusterBase

ARN = "arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefghijkl"
OIDC = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/ABC"
OBJECTS = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inference"}}]


def adopt(stack: cdk.Stack, *, cluster_arn: str = ARN, closed: bool = False, **settings: Any) -> ClusterBase:
    network = adopt_network(stack, closed=closed)
    return HyperPodCluster.from_cluster_attributes(
        stack,
        "Cluster",
        network=network,
        eks_cluster=adopt_eks(stack, network, **settings),
        cluster_name="mine",
        cluster_arn=cluster_arn,
        node_security_group_id="sg-nodes",
    )


FOREIGN = {"vpc-1", "subnet-1", "subnet-2", "sg-eks", "sg-nodes", "my-eks", "mine"}


def changed_of_others(template: dict[str, Any]) -> set[str]:
    """The ids of what exists, where a resource of the template changes it rather than lives in it."""
    changing = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress", "AWS::EC2::Route")
    groups = [
        resource["Properties"].get("GroupId")
        for resource in template.get("Resources", {}).values()
        if resource["Type"] in changing
    ]
    return {group for group in groups if isinstance(group, str)} & FOREIGN


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


def test_what_the_cluster_has_already_is_not_made_again_and_never_taken_over() -> None:
    def build(stack: cdk.Stack) -> None:
        cluster = adopt(stack, oidc_provider_arn=OIDC, existing_addons=["aws-fsx-csi-driver"])
        cluster.mount_fsx()
        cluster.read_bucket("weights")

    template = synthesize(build)

    addon = the(template, "AWS::EKS::Addon")
    assert addon["AddonName"] == "aws-mountpoint-s3-csi-driver"
    assert addon["ResolveConflicts"] == "NONE"


@pytest.mark.parametrize(
    ("addon", "make"),
    [
        pytest.param(OPERATOR, InferenceOperator, id="an operator"),
        pytest.param(OBSERVABILITY, Observability, id="an observability"),
    ],
)
def test_a_second_of_what_a_cluster_has_once_is_refused(addon: str, make: Callable[..., object]) -> None:
    stack = new_stack()
    cluster = adopt(stack, oidc_provider_arn=OIDC, existing_addons=[addon])

    with pytest.raises(ConfigError, match=rf"existing_addons is .*; expected none called {addon}, or no "):
        make(stack, "Second", cluster=cluster)


def test_a_cluster_with_the_operator_has_what_the_operator_looks_for() -> None:
    def build(stack: cdk.Stack) -> None:
        cluster = adopt(stack, existing_addons=[OPERATOR])
        cluster.mount_fsx()
        cluster.read_bucket("weights")

    assert not resources(synthesize(build), "AWS::EKS::Addon")


def test_the_bucket_of_a_driver_that_exists_is_its_owner_s_to_open() -> None:
    template = synthesize(
        lambda stack: adopt(stack, existing_addons=["aws-mountpoint-s3-csi-driver"]).read_bucket("weights")
    )

    assert not resources(template, "AWS::EKS::Addon")
    assert "weights" not in json.dumps(template)


def test_an_object_of_the_same_name_stops_the_deployment_and_stays_as_it_is() -> None:
    template = synthesize(lambda stack: adopt(stack).add_manifest("Namespace", OBJECTS))

    assert the(template, "Custom::AWSCDK-EKS-KubernetesResource").get("Overwrite", False) is False


def hyperpod_on(stack: cdk.Stack, *, closed: bool = False, **settings: Any) -> HyperPodCluster:
    network = adopt_network(
        stack,
        closed=closed,
        private_subnet_cidrs=["10.0.0.0/18", "10.0.64.0/18"],
        availability_zone_ids=["usw2-az1", "usw2-az2"],
    )
    return HyperPodCluster(
        stack,
        "Cluster",
        network=network,
        eks_cluster=adopt_eks(stack, network, **settings),
        instance_groups=[
            InstanceGroup(
                name="system", instance_type="ml.m5.4xlarge", count=2, availability_zone_id="usw2-az2"
            )
        ],
        name="mine",
    )


@pytest.mark.parametrize("closed", [False, True])
def test_on_an_eks_cluster_that_exists_hyperpod_is_made_and_nothing_else_of_it(closed: bool) -> None:
    template = synthesize(lambda stack: hyperpod_on(stack, closed=closed))

    cluster = the(template, "AWS::SageMaker::Cluster")
    (group,) = cluster["InstanceGroups"]
    made = {resource["Type"] for resource in template["Resources"].values()}
    assert not made & {"AWS::EKS::Cluster", "AWS::EKS::Addon", "AWS::EC2::VPC", "AWS::EC2::VPCEndpoint"}
    assert cluster["VpcConfig"]["SecurityGroupIds"][1] == "sg-eks"
    assert group["OverrideVpcConfig"]["SecurityGroupIds"][1] == "sg-eks"
    assert group["OverrideVpcConfig"]["Subnets"] == ["subnet-2"]
    assert changed_of_others(template) == set()
    for manifest in resources(template, "Custom::AWSCDK-EKS-KubernetesResource"):
        (entry,) = [name for name in resources(template, "AWS::EKS::AccessEntry") if "Kubectl" in name]
        assert entry in depends_on(template, manifest)


@pytest.mark.parametrize(("existing", "made"), [([], True), (["aws-hyperpod"], False)])
def test_hyperpod_s_namespace_is_made_where_it_does_not_exist(existing: list[str], made: bool) -> None:
    template = synthesize(lambda stack: hyperpod_on(stack, existing_namespaces=existing))

    manifests = resources(template, "Custom::AWSCDK-EKS-KubernetesResource").values()
    assert any('"kind":"Namespace"' in str(manifest) for manifest in manifests) is made


@pytest.mark.parametrize("closed", [False, True])
def test_a_hook_reaches_the_adopted_cluster_and_opens_no_group_of_its_owner_s(closed: bool) -> None:
    def build(stack: cdk.Stack) -> None:
        CacheUtilizationScaling(
            stack,
            "Scaling",
            cluster=adopt(stack, closed=closed),
            endpoint="llama",
            namespace="inference",
            deployment="llama-engine",
            min_replicas=1,
            max_replicas=2,
        )

    assert changed_of_others(synthesize(build)) == set()


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        pytest.param({}, "kubernetes_version", id="neither"),
        pytest.param({"kubernetes_version": "1.35", "with_eks": True}, "kubernetes_version", id="both"),
        pytest.param({"with_eks": True, "api_cidrs": ["192.0.2.0/24"]}, "api_cidrs", id="an API of others"),
    ],
)
def test_an_eks_cluster_is_new_or_exists(settings: dict[str, Any], setting: str) -> None:
    stack = new_stack()
    network = adopt_network(stack)
    chosen = {key: value for key, value in settings.items() if key != "with_eks"}
    if "with_eks" in settings:
        chosen["eks_cluster"] = adopt_eks(stack, network)

    with pytest.raises(ConfigError) as refused:
        HyperPodCluster(
            stack,
            "Cluster",
            network=network,
            instance_groups=[InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=2)],
            name="mine",
            **chosen,
        )

    assert refused.value.setting == setting
