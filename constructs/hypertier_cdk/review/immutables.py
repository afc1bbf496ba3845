"""What can't be changed once it is deployed: a change replaces the thing, or fails.

The properties are the `createOnlyProperties` of each type's CloudFormation schema (a test compares them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hypertier_cdk.review.kubernetes import objects_of, of_kind
from hypertier_cdk.review.templates import Assembly

CREATE_ONLY: Mapping[str, Mapping[str, str]] = {
    "AWS::SageMaker::Cluster": {
        "ClusterName": "a second cluster can't attach to the same EKS cluster: destroy, then deploy again",
        "VpcConfig": "subnets and security groups; add instance groups instead",
        "Orchestrator/Eks": "the EKS cluster beneath",
    },
    "AWS::EKS::Cluster": {
        "Name": "a new name is a new cluster",
        "RoleArn": "",
        "EncryptionConfig": "the key of Kubernetes secrets",
        "KubernetesNetworkConfig/IpFamily": "",
        "KubernetesNetworkConfig/ServiceIpv4Cidr": "",
    },
    "AWS::ElastiCache::ReplicationGroup": {
        "AtRestEncryptionEnabled": "",
        "KmsKeyId": "a new key is an empty L2",
        "CacheSubnetGroupName": "",
        "Port": "",
        "ReplicationGroupId": "",
    },
    "AWS::ElastiCache::User": {"UserId": "", "UserName": ""},
    "AWS::EC2::VPC": {"CidrBlock": "everything in the network would be replaced"},
    "AWS::EC2::Subnet": {"CidrBlock": "", "AvailabilityZone": "", "AvailabilityZoneId": ""},
}


@dataclass(frozen=True, slots=True)
class Immutable:
    """Properties of one resource that were set and can't change in place, and what to know about them."""

    stack: str
    what: str
    properties: tuple[str, ...]
    note: str


def immutables_of(assembly: Assembly) -> tuple[Immutable, ...]:
    """One line a resource that has such properties set; subnets share one line a stack."""
    return tuple(_of_resources(assembly)) + tuple(_of_endpoints(assembly))


def _of_resources(assembly: Assembly) -> Iterator[Immutable]:
    subnets: dict[str, int] = {}
    for resource in assembly.resources:
        known = CREATE_ONLY.get(resource.type, {})
        set_ones = tuple(name for name in known if resource.get(*name.split("/")) is not None)
        if not set_ones:
            continue
        if resource.type == "AWS::EC2::Subnet":
            subnets[resource.stack] = subnets.get(resource.stack, 0) + 1
            continue
        notes = "; ".join(f"{name}: {known[name]}" for name in set_ones if known[name])
        yield Immutable(resource.stack, resource.path, set_ones, notes)
    for stack, count in subnets.items():
        yield Immutable(stack, f"{count} subnets", tuple(CREATE_ONLY["AWS::EC2::Subnet"]), "")


def _of_endpoints(assembly: Assembly) -> Iterator[Immutable]:
    for endpoint in of_kind(objects_of(assembly), "InferenceEndpointConfig"):
        yield Immutable(
            "Kubernetes",
            f"InferenceEndpointConfig {endpoint['metadata']['name']}",
            ("spec.intelligentRoutingSpec.enabled",),
            "routing can't be added later: delete the endpoint and create it again",
        )
