"""The HyperPod cluster: groups, order, manifests, pods' roles."""

from __future__ import annotations

from typing import Any

import pytest
from fakes_templates import depends_on, new_stack, permissions, resources, statements, synthesize, the

from hypertier.errors import ConfigError
from hypertier.spec.instance_group import Volume
from hypertier_cdk import HyperPodCluster, InstanceGroup, Network, TieredStorage

SYSTEM = InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1)


def cluster_of(stack: Any, **settings: Any) -> HyperPodCluster:
    return HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network"),
        **{"kubernetes_version": "1.35", "instance_groups": [SYSTEM], "name": "test"} | settings,
    )


def hyperpod(template: dict[str, Any]) -> str:
    (logical_id,) = resources(template, "AWS::SageMaker::Cluster")
    return logical_id


def test_every_instance_group_of_the_deployment_is_a_group_of_the_cluster(reference: Any) -> None:
    groups = the(reference.template, "AWS::SageMaker::Cluster")["InstanceGroups"]

    assert [(g["InstanceGroupName"], g["InstanceType"], g["InstanceCount"]) for g in groups] == [
        ("system", "ml.m5.4xlarge", 3),
        ("gpu", "ml.p5.48xlarge", 7),
    ]


def test_a_group_in_one_zone_gets_that_zone_s_subnet_and_no_other(reference: Any) -> None:
    system, gpu = the(reference.template, "AWS::SageMaker::Cluster")["InstanceGroups"]

    (subnet,) = gpu["OverrideVpcConfig"]["Subnets"]
    assert reference.template["Resources"][subnet["Ref"]]["Properties"]["AvailabilityZoneId"] == "usw2-az2"
    assert "OverrideVpcConfig" not in system


def test_the_cluster_lies_in_the_private_subnets_with_the_nodes_group(reference: Any) -> None:
    vpc = the(reference.template, "AWS::SageMaker::Cluster")["VpcConfig"]

    subnets = [reference.template["Resources"][subnet["Ref"]]["Properties"] for subnet in vpc["Subnets"]]
    assert len(subnets) == 3
    assert not any(subnet.get("MapPublicIpOnLaunch") for subnet in subnets)
    assert len(vpc["SecurityGroupIds"]) == 1


def test_nodes_are_provisioned_continuously_and_recover_by_themselves(reference: Any) -> None:
    cluster = the(reference.template, "AWS::SageMaker::Cluster")

    assert (cluster["NodeProvisioningMode"], cluster["NodeRecovery"]) == ("Continuous", "Automatic")


def test_a_deployment_without_tiered_storage_takes_no_memory_for_it(reference: Any) -> None:
    assert "TieredStorageConfig" not in the(reference.template, "AWS::SageMaker::Cluster")


def test_tiered_storage_takes_its_percentage_of_every_node() -> None:
    template = synthesize(lambda stack: cluster_of(stack, tiered_storage=TieredStorage(memory_percent=30)))

    assert the(template, "AWS::SageMaker::Cluster")["TieredStorageConfig"] == {
        "Mode": "Enable",
        "InstanceMemoryAllocationPercentage": 30,
    }


@pytest.mark.parametrize(
    "kind",
    [
        "AWS::IAM::Role",
        "AWS::EKS::Addon",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::NatGateway",
    ],
)
def test_nodes_come_after_what_they_need_to_join(reference: Any, kind: str) -> None:
    before = depends_on(reference.template, hyperpod(reference.template))

    assert before & set(resources(reference.template, kind))


def test_manifests_come_after_the_nodes(reference: Any) -> None:
    (waiter,) = resources(reference.template, "Custom::HypertierNodeReadiness")
    (namespace,) = [
        logical_id
        for logical_id, resource in resources(
            reference.template, "Custom::AWSCDK-EKS-KubernetesResource"
        ).items()
        if '"inference"' in str(resource["Properties"]["Manifest"])
    ]

    before = depends_on(reference.template, namespace)
    assert {waiter, hyperpod(reference.template)} <= before


def test_pods_get_their_role_by_pod_identity_of_this_cluster_alone(reference: Any) -> None:
    association = the(reference.template, "AWS::EKS::PodIdentityAssociation")
    role = reference.template["Resources"][association["RoleArn"]["Fn::GetAtt"][0]]["Properties"]

    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert (association["Namespace"], association["ServiceAccount"]) == ("inference", "engine")
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert set(statement["Action"]) == {"sts:AssumeRole", "sts:TagSession"}
    assert "aws:SourceArn" in str(statement["Condition"])


def test_no_statement_allows_every_action(reference: Any) -> None:
    written = [statement["Action"] for statement in statements(reference.template)]

    actions = [action for entry in written for action in (entry if isinstance(entry, list) else [entry])]
    assert not [action for action in actions if action == "*" or action.endswith(":*")]


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        pytest.param({"name": "-hyper"}, "name", id="a name that begins with a hyphen"),
        pytest.param({"name": "a" * 64}, "name", id="a name that is too long"),
        pytest.param({"name": ""}, "name", id="no name"),
        pytest.param({"instance_groups": []}, "instance_groups", id="no instance group"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_with_the_setting(settings: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster_of(new_stack(), **settings)

    assert refused.value.setting == setting


def test_karpenter_may_lend_the_volumes_key_to_sagemaker_for_the_nodes_that_it_adds() -> None:
    worker = InstanceGroup(name="gpu", instance_type="ml.p5.48xlarge", count=0, volume=Volume(size="500Gi"))
    template = synthesize(lambda stack: cluster_of(stack, instance_groups=[SYSTEM, worker], autoscaling=True))

    (lends,) = [entry for entry in statements(template) if entry["Action"] == "kms:CreateGrant"]

    (key,) = [name for name in resources(template, "AWS::KMS::Key") if "VolumesKey" in name]
    assert lends["Resource"] == {"Fn::GetAtt": [key, "Arn"]}
    assert lends["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}
    assert lends["Condition"]["StringLike"] == {"kms:ViaService": "sagemaker.*.amazonaws.com"}


def test_karpenter_s_rights_are_there_before_the_cluster() -> None:
    template = synthesize(lambda stack: cluster_of(stack, autoscaling=True))

    (role,) = [name for name in resources(template, "AWS::IAM::Role") if "ClusterRole" in name]
    assert (
        permissions(template, role)
        == template["Resources"][role]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    )
    assert role in depends_on(template, hyperpod(template))
