"""Each section of the review finds what it is there for, and leaves alone what is in order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from hypertier_cdk.create_only import CREATE_ONLY
from hypertier_cdk.review.access import broad_statements, managed_policies, open_principals
from hypertier_cdk.review.encryption import encryption_of
from hypertier_cdk.review.exposure import exposed, outbound
from hypertier_cdk.review.immutables import immutables_of
from hypertier_cdk.review.kubernetes import MANIFEST
from hypertier_cdk.review.quotas import quotas_of
from hypertier_cdk.review.templates import Assembly, assembly_of, text_of


def one(resource_type: str, **properties: Any) -> Assembly:
    resource = {
        "Type": resource_type,
        "Properties": properties,
        "Metadata": {"aws:cdk:path": "stack/Part/Resource"},
    }
    return assembly_of({"stack": {"Resources": {"Id123": resource}}})


def policy(**statement: Any) -> Assembly:
    document = {"Statement": [{"Effect": "Allow", "Action": "s3:GetObject"} | statement]}
    return one("AWS::IAM::Policy", PolicyDocument=document)


def manifest(*objects: dict[str, Any]) -> Assembly:
    return one(MANIFEST, Manifest=json.dumps(objects))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"Ref": "Vpc"}, "${Vpc}", id="a reference"),
        pytest.param({"Fn::GetAtt": ["Key", "Arn"]}, "${Key.Arn}", id="an attribute"),
        pytest.param({"Fn::Join": ["", ["arn:", {"Ref": "P"}, ":x"]]}, "arn:${P}:x", id="a join"),
        pytest.param({"Fn::ImportValue": "net:Vpc"}, "${net:Vpc}", id="an import"),
        pytest.param({"Fn::If": ["C", "a", {"Ref": "AWS::NoValue"}]}, "a", id="a condition"),
        pytest.param({"a": 1, "b": 2}, '{"a": 1, "b": 2}', id="anything else as JSON"),
    ],
)
def test_a_value_is_written_as_a_person_would(value: Any, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    "resource",
    [
        pytest.param("*", id="everything"),
        pytest.param(["arn:aws:s3:::one", "arn:aws:s3:::two/*"], id="one of several"),
        pytest.param(
            {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":ecr:*:*:x"]]}, id="inside a join"
        ),
    ],
)
def test_a_wildcard_is_broad(resource: Any) -> None:
    (found,) = broad_statements(policy(Resource=resource, Condition={"Bool": {"a": "true"}}))

    assert found.holder == "Part"
    assert found.actions == ("s3:GetObject",)
    assert "a" in found.conditions


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param({"Resource": {"Fn::GetAtt": ["Bucket", "Arn"]}}, id="one resource"),
        pytest.param({"Resource": "*", "Effect": "Deny"}, id="a denial"),
    ],
)
def test_what_is_not_broad_is_left_out(statement: dict[str, Any]) -> None:
    assert broad_statements(policy(**statement)) == ()


def test_everything_but_something_is_broad() -> None:
    assert broad_statements(policy(NotResource="arn:aws:s3:::one"))


def test_policies_of_aws_are_named() -> None:
    arn = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":iam::aws:policy/AmazonEKSClusterPolicy"]]}

    (found,) = managed_policies(one("AWS::IAM::Role", ManagedPolicyArns=[arn]))

    assert found.name == "AmazonEKSClusterPolicy"


@pytest.mark.parametrize(
    ("statement", "is_open"),
    [
        pytest.param({"Principal": "*"}, True, id="everybody"),
        pytest.param({"Principal": {"AWS": "*"}}, True, id="every account"),
        pytest.param({"Principal": "*", "Condition": {"Bool": {}}}, False, id="with a condition"),
        pytest.param({"Principal": {"Service": "eks.amazonaws.com"}}, False, id="a service"),
    ],
)
def test_a_policy_open_to_everybody_is_public(statement: dict[str, Any], is_open: bool) -> None:
    document = {"Statement": {"Effect": "Allow", "Action": "sqs:SendMessage"} | statement}

    assert bool(open_principals(one("AWS::SQS::QueuePolicy", PolicyDocument=document))) is is_open


@pytest.mark.parametrize(
    ("resource_type", "properties"),
    [
        pytest.param(
            "AWS::ElastiCache::ReplicationGroup", {"TransitEncryptionEnabled": True}, id="L2 at rest"
        ),
        pytest.param(
            "AWS::ElastiCache::ReplicationGroup", {"AtRestEncryptionEnabled": True}, id="L2 in transit"
        ),
        pytest.param(
            "AWS::SageMaker::Cluster", {"TieredStorageConfig": {"Mode": "Enable"}}, id="tiered storage"
        ),
        pytest.param("AWS::SNS::Topic", {}, id="a topic without a key"),
        pytest.param("AWS::SQS::Queue", {"SqsManagedSseEnabled": False}, id="a queue that says no"),
    ],
)
def test_what_is_not_encrypted_is_open(resource_type: str, properties: dict[str, Any]) -> None:
    assert [entry.is_open for entry in encryption_of(one(resource_type, **properties))] == [True]


@pytest.mark.parametrize(
    ("resource_type", "properties"),
    [
        pytest.param(
            "AWS::ElastiCache::ReplicationGroup",
            {
                "AtRestEncryptionEnabled": True,
                "TransitEncryptionEnabled": True,
                "KmsKeyId": {"Fn::GetAtt": ["Key", "Arn"]},
            },
            id="L2",
        ),
        pytest.param("AWS::SNS::Topic", {"KmsMasterKeyId": {"Fn::GetAtt": ["Key", "Arn"]}}, id="a topic"),
        pytest.param(
            "AWS::EKS::Cluster",
            {"EncryptionConfig": [{"Provider": {"KeyArn": {"Fn::GetAtt": ["Key", "Arn"]}}}]},
            id="Kubernetes secrets",
        ),
    ],
)
def test_a_customer_key_is_named(resource_type: str, properties: dict[str, Any]) -> None:
    (entry,) = encryption_of(one(resource_type, **properties))

    assert entry.at_rest == "customer key ${Key.Arn}"
    assert not entry.is_open


@pytest.mark.parametrize(
    "assembly",
    [
        pytest.param(
            one(
                "AWS::EC2::SecurityGroup", SecurityGroupIngress=[{"CidrIp": "0.0.0.0/0", "IpProtocol": "-1"}]
            ),
            id="a security group",
        ),
        pytest.param(
            one(
                "AWS::EC2::SecurityGroupIngress", CidrIpv6="::/0", IpProtocol="tcp", FromPort=443, ToPort=443
            ),
            id="a rule of IPv6",
        ),
        pytest.param(
            one("AWS::EKS::Cluster", ResourcesVpcConfig={"EndpointPublicAccess": True}), id="EKS's API"
        ),
        pytest.param(one("AWS::EKS::Cluster", ResourcesVpcConfig={}), id="EKS's API by default"),
        pytest.param(one("AWS::Lambda::Url", AuthType="NONE"), id="a function's URL"),
        pytest.param(one("AWS::S3::Bucket"), id="a bucket that blocks nothing"),
        pytest.param(one("AWS::EC2::Subnet", MapPublicIpOnLaunch=True), id="a public subnet"),
        pytest.param(
            one("AWS::ElasticLoadBalancingV2::LoadBalancer", Scheme="internet-facing"), id="a load balancer"
        ),
        pytest.param(
            manifest({"kind": "Service", "metadata": {"name": "r"}, "spec": {"type": "LoadBalancer"}}),
            id="a Kubernetes service",
        ),
    ],
)
def test_a_way_in_from_the_internet_is_public(assembly: Assembly) -> None:
    assert len(exposed(assembly)) == 1


@pytest.mark.parametrize(
    "assembly",
    [
        pytest.param(
            one("AWS::EC2::SecurityGroup", SecurityGroupIngress=[{"CidrIp": "10.0.0.0/16"}]), id="the network"
        ),
        pytest.param(
            one("AWS::EC2::SecurityGroup", SecurityGroupEgress=[{"CidrIp": "0.0.0.0/0"}]), id="a way out"
        ),
        pytest.param(
            one("AWS::EKS::Cluster", ResourcesVpcConfig={"EndpointPublicAccess": False}), id="a private API"
        ),
        pytest.param(
            manifest({"kind": "Service", "metadata": {"name": "r"}, "spec": {"type": "ClusterIP"}}),
            id="a service inside",
        ),
    ],
)
def test_what_stays_inside_is_not_public(assembly: Assembly) -> None:
    assert exposed(assembly) == ()


@pytest.mark.parametrize(
    ("kinds", "way"),
    [
        pytest.param(["Service"], "HTTP inside the network", id="inside"),
        pytest.param(
            ["Service", "Ingress"],
            "TLS to the load balancer, then HTTP inside the network",
            id="from outside",
        ),
    ],
)
def test_how_requests_travel_is_said(kinds: list[str], way: str) -> None:
    metadata = {"name": "llama-router", "labels": {"app.kubernetes.io/component": "router"}}
    objects = [{"kind": kind, "metadata": metadata, "spec": {}} for kind in kinds]

    (entry,) = encryption_of(manifest(*objects))

    assert (entry.what, entry.in_transit) == ("llama-router: requests", way)


@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        pytest.param([], "HTTP inside the network, kept to routers and the exporter by policies", id="none"),
        pytest.param(["--replica-ca", "a"], "TLS", id="tls"),
        pytest.param(
            ["--replica-ca", "a", "--replica-cert", "b"], "TLS, both sides show certificates", id="mutual"
        ),
    ],
)
def test_how_routers_speak_to_engines_is_said(arguments: list[str], way: str) -> None:
    metadata = {"name": "llama-router", "labels": {"app.kubernetes.io/component": "router"}}
    spec = {"template": {"spec": {"containers": [{"args": arguments}]}}}

    (entry,) = encryption_of(manifest({"kind": "Deployment", "metadata": metadata, "spec": spec}))

    assert (entry.what, entry.in_transit) == ("llama-router: requests to engines", way)


def test_a_nat_gateway_is_a_way_out() -> None:
    assert len(outbound(one("AWS::EC2::NatGateway"))) == 1


def test_properties_that_are_set_and_fixed_are_listed() -> None:
    (found,) = immutables_of(
        one("AWS::SageMaker::Cluster", ClusterName="a", VpcConfig={}, NodeRecovery="None")
    )

    assert found.properties == ("ClusterName", "VpcConfig")
    assert "second cluster" in found.note


def test_an_endpoint_s_routing_is_fixed() -> None:
    (found,) = immutables_of(manifest({"kind": "InferenceEndpointConfig", "metadata": {"name": "llama"}}))

    assert found.what == "InferenceEndpointConfig llama"


@pytest.mark.parametrize("resource_type", CREATE_ONLY)
def test_cloudformation_s_schema_agrees_that_it_is_fixed(resource_type: str) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-west-2", resource_type).schema
    create_only = [f"{path.removeprefix('/properties/')}/" for path in schema["createOnlyProperties"]]

    # What lies in a list is not in the schema: the service refuses it.
    named = [name for name in CREATE_ONLY[resource_type] if "*" not in name]

    assert [
        name for name in named if not any(f"{path}/".startswith(f"{name}/") for path in create_only)
    ] == []


def test_a_property_in_a_list_is_found() -> None:
    groups = [{"InstanceGroupName": "a"}, {"InstanceGroupName": "b", "OverrideVpcConfig": {"Subnets": []}}]

    (found,) = immutables_of(one("AWS::SageMaker::Cluster", InstanceGroups=groups))

    assert found.properties == ("InstanceGroups/*/OverrideVpcConfig",)


def test_a_quota_adds_up_the_groups_of_one_type() -> None:
    groups = [
        {"InstanceGroupName": "a", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 7},
        {"InstanceGroupName": "b", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 1},
        {"InstanceGroupName": "c", "InstanceType": "ml.m5.4xlarge", "InstanceCount": 3},
    ]

    quotas = quotas_of(one("AWS::SageMaker::Cluster", InstanceGroups=groups))

    assert {quota.name: quota.needed for quota in quotas} == {
        "Maximum number instances allowed per SageMaker HyperPod cluster": 11,
        "Total number of instances allowed across SageMaker HyperPod clusters": 11,
        "ml.m5.4xlarge for cluster usage": 3,
        "ml.p5.48xlarge for cluster usage": 8,
    }


def test_spot_nodes_have_quotas_of_their_own_for_every_type_that_they_may_be_of() -> None:
    group = {
        "InstanceGroupName": "a",
        "InstanceRequirements": {"InstanceTypes": ["ml.p5.48xlarge", "ml.p5e.48xlarge"]},
        "InstanceCount": 2,
        "CapacityRequirements": {"Spot": {}},
    }

    quotas = quotas_of(one("AWS::SageMaker::Cluster", InstanceGroups=[group]))

    assert {quota.name: quota.needed for quota in quotas} == {
        "Maximum number instances allowed per SageMaker HyperPod cluster": 2,
        "Total number of Spot instances allowed across SageMaker HyperPod clusters": 2,
        "Total number of instances allowed across SageMaker HyperPod clusters": 2,
        "ml.p5.48xlarge for cluster spot instance usage": 2,
        "ml.p5e.48xlarge for cluster spot instance usage": 2,
    }
