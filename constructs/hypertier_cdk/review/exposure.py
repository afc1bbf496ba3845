"""What can be reached from the internet, or reaches out to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from hypertier_cdk.review.access import open_principals
from hypertier_cdk.review.kubernetes import objects_of, of_kind
from hypertier_cdk.review.templates import Assembly, Resource

EVERYWHERE = ("0.0.0.0/0", "::/0")
_SCHEME = "service.beta.kubernetes.io/aws-load-balancer-scheme"


def exposed(assembly: Assembly) -> tuple[str, ...]:
    """One sentence for each way in from the internet; empty where there is none."""
    return (*_ways_in(assembly), *open_principals(assembly))


def outbound(assembly: Assembly) -> tuple[str, ...]:
    """One sentence for each way out to the internet."""
    return tuple(
        f"{gateway.stack}: {gateway.path} lets private subnets reach the internet"
        for gateway in assembly.of_type("AWS::EC2::NatGateway")
    )


def _ways_in(assembly: Assembly) -> Iterator[str]:
    for resource in assembly.resources:
        where = f"{resource.stack}: {resource.path}"
        if resource.type in ("AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress"):
            for rule in _ingress(resource):
                if rule.get("CidrIp") in EVERYWHERE or rule.get("CidrIpv6") in EVERYWHERE:
                    yield f"{where} admits the whole internet on {_ports(rule)}"
        elif resource.type == "AWS::EKS::Cluster":
            config = resource.get("ResourcesVpcConfig", default={})
            if config.get("EndpointPublicAccess", True):
                cidrs = ", ".join(config.get("PublicAccessCidrs") or EVERYWHERE[:1])
                yield f"{where}: the Kubernetes API answers {cidrs}, behind IAM"
        elif resource.type == "AWS::ElasticLoadBalancingV2::LoadBalancer":
            if resource.get("Scheme") != "internal":
                yield f"{where} is an internet-facing load balancer"
        elif resource.type == "AWS::Lambda::Url":
            yield f"{where} is a function's own URL, with {resource.get('AuthType')} authorization"
        elif resource.type == "AWS::S3::Bucket" and not _blocks_public_access(resource):
            yield f"{where} does not block public access"
    public = [subnet for subnet in assembly.of_type("AWS::EC2::Subnet") if subnet.get("MapPublicIpOnLaunch")]
    for stack, count in Counter(subnet.stack for subnet in public).items():
        yield f"{stack}: {count} public subnets; what starts there gets a public address"
    for service in of_kind(objects_of(assembly), "Service"):
        annotations = service["metadata"].get("annotations", {})
        if service["spec"].get("type") == "LoadBalancer" and annotations.get(_SCHEME) != "internal":
            yield f"Kubernetes: service {service['metadata']['name']} is an internet-facing load balancer"


def _ingress(resource: Resource) -> tuple[Mapping[str, Any], ...]:
    if resource.type == "AWS::EC2::SecurityGroupIngress":
        return (resource.properties,)
    return tuple(resource.get("SecurityGroupIngress", default=()))


def _ports(rule: Mapping[str, Any]) -> str:
    if str(rule.get("IpProtocol")) == "-1":
        return "every port"
    first, last = rule.get("FromPort"), rule.get("ToPort")
    return f"port {first}" if first == last else f"ports {first} to {last}"


def _blocks_public_access(bucket: Resource) -> bool:
    block = bucket.get("PublicAccessBlockConfiguration", default={})
    return all(
        block.get(key)
        for key in ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    )
