"""The VPC and the subnets that a file tells of, and the services that a closed network reaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypertier.doctor.check import Check, Said, Talk, Verdict, fails, ok, question
from hypertier.doctor.checks import calls
from hypertier.planning.addresses import num_addresses
from hypertier.planning.made import interface_services, makes_eks, makes_hyperpod, zone_ids
from hypertier.spec.cluster import ClusterAttributes
from hypertier.spec.deployment import Deployment

# https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (read 2026-12-02)
EKS_ADDRESSES = 6  # that the control plane needs in each subnet


def checks(deployment: Deployment) -> Iterator[Check]:
    """What exists of the network, and what a new closed one needs."""
    told = deployment.cluster.attributes
    if told is not None:
        yield _vpc(told)
        if makes_eks(deployment):
            yield from _names(told)
        yield _subnets(deployment, told)
        if makes_hyperpod(deployment):
            yield _addresses(deployment, told)
    services = interface_services(deployment)
    if services:
        yield _services(deployment, services)


def _vpc(told: ClusterAttributes) -> Check:
    asked = question("ec2", "DescribeVpcs", Filters=[{"Name": "vpc-id", "Values": [told.vpc_id]}])

    def talk() -> Talk:
        return vpc_is_as_told((yield asked), told)

    return Check(f"VPC {told.vpc_id}", talk, (asked,))


def _names(told: ClusterAttributes) -> Iterator[Check]:
    """EKS's nodes find its API by names in the VPC."""
    for attribute in ("enableDnsSupport", "enableDnsHostnames"):
        yield _name(told.vpc_id, attribute)


def _name(vpc_id: str, attribute: str) -> Check:
    asked = question("ec2", "DescribeVpcAttribute", VpcId=vpc_id, Attribute=attribute)

    def talk() -> Talk:
        said = yield asked
        key = attribute[0].upper() + attribute[1:]
        return named(attribute, vpc_id, is_on=bool(said and said.get(key, {}).get("Value")))

    return Check(f"{attribute} of the VPC", talk, (asked,))


def _subnets(deployment: Deployment, told: ClusterAttributes) -> Check:
    asked = calls.subnets(deployment)

    def talk() -> Talk:
        return subnets_are_as_told((yield asked), told)

    return Check("subnets", talk, (asked,))


def _addresses(deployment: Deployment, told: ClusterAttributes) -> Check:
    asked, own = calls.subnets(deployment), calls.hyperpod_cluster(deployment, deployment.name)

    def talk() -> Talk:
        free = free_addresses((yield asked))
        needed = needed_addresses(deployment, (yield own))
        return room(needed, free, least=EKS_ADDRESSES if makes_eks(deployment) else 0)

    return Check("free addresses of the subnets", talk, (asked, own))


def _services(deployment: Deployment, services: Sequence[str]) -> Check:
    names = [service_name(deployment.region, service) for service in services]
    asked = question(
        "ec2", "DescribeVpcEndpointServices", Filters=[{"Name": "service-name", "Values": names}]
    )

    def talk() -> Talk:
        return reachable(names, zone_ids(deployment), (yield asked))

    return Check("services that a closed network reaches", talk, (asked,))


def service_name(region: str, service: str) -> str:
    """The name of an interface endpoint's service."""
    prefix = "cn.com" if region.startswith("cn-") else "com"
    return f"{prefix}.amazonaws.{region}.{service}"


def vpc_is_as_told(said: Said | None, told: ClusterAttributes) -> Verdict:
    """Whether the VPC exists and has the address ranges that the file tells of."""
    vpcs = (said or {}).get("Vpcs", ())
    if not vpcs:
        return fails("does not exist in this account and Region", "cluster.attributes.vpcId: one that does")
    (vpc,) = vpcs
    if vpc["State"] != "available":
        return fails(f"is {vpc['State']}", "wait until it is available")
    blocks = vpc.get("CidrBlockAssociationSet") or [vpc]
    ranges = {block["CidrBlock"] for block in blocks}
    wrong = [cidr for cidr in told.vpc_cidrs if cidr not in ranges]
    if wrong:
        return fails(
            f"does not have {', '.join(wrong)}", f"cluster.attributes.vpcCidrs: [{', '.join(sorted(ranges))}]"
        )
    left_out = sorted(ranges.difference(told.vpc_cidrs)) if told.vpc_cidrs else []
    if left_out:
        return fails(
            f"has {', '.join(left_out)} too, from where clients would not be let in",
            f"cluster.attributes.vpcCidrs: [{', '.join(sorted(ranges))}]",
        )
    return ok("available")


def named(attribute: str, vpc_id: str, *, is_on: bool) -> Verdict:
    """Whether the VPC gives names, without which nodes do not find EKS."""
    if is_on:
        return ok("on")
    flag = "--enable-dns-support" if attribute == "enableDnsSupport" else "--enable-dns-hostnames"
    return fails(
        "off, and nodes would not find the cluster's API",
        f"aws ec2 modify-vpc-attribute --vpc-id {vpc_id} {flag}",
    )


def subnets_are_as_told(said: Said | None, told: ClusterAttributes) -> Verdict:
    """Whether each subnet exists, lies in the VPC, and in the zone and range that the file tells of."""
    there = {subnet["SubnetId"]: subnet for subnet in (said or {}).get("Subnets", ())}
    for number, subnet_id in enumerate(told.private_subnet_ids):
        subnet = there.get(subnet_id)
        if subnet is None:
            return fails(
                f"{subnet_id} does not exist", "cluster.attributes.privateSubnetIds: those of the VPC"
            )
        for key, name, wanted in (
            ("vpcId", "VpcId", told.vpc_id),
            ("availabilityZones", "AvailabilityZone", told.availability_zones[number]),
            ("availabilityZoneIds", "AvailabilityZoneId", _nth(told.availability_zone_ids, number)),
            ("privateSubnetCidrs", "CidrBlock", _nth(told.private_subnet_cidrs, number)),
        ):
            if wanted is not None and subnet[name] != wanted:
                return fails(
                    f"{subnet_id} has {name} {subnet[name]}, the file says {wanted}",
                    f"cluster.attributes.{key}: what `aws ec2 describe-subnets` tells",
                )
    return ok(", ".join(told.private_subnet_ids))


def _nth(values: Sequence[str], number: int) -> str | None:
    return values[number] if values else None


def free_addresses(said: Said | None) -> dict[str, int]:
    """Zone id -> the addresses that its subnet has free."""
    free: dict[str, int] = {}
    for subnet in (said or {}).get("Subnets", ()):
        zone = subnet["AvailabilityZoneId"]
        free[zone] = free.get(zone, 0) + subnet["AvailableIpAddressCount"]
    return free


def needed_addresses(deployment: Deployment, own: Said | None) -> dict[str | None, int]:
    """Addresses of nodes that are not there yet, by zone id; None for groups in any zone."""
    there = {
        group["InstanceGroupName"]: group.get("CurrentCount", 0)
        for group in (own or {}).get("InstanceGroups", ())
    }
    needed: dict[str | None, int] = {}
    for group in deployment.instance_groups:
        coming = max(group.count - there.get(group.name, 0), 0)
        zone = group.availability_zone_id
        needed[zone] = needed.get(zone, 0) + num_addresses(group, num_nodes=coming)
    return needed


def room(needed: Mapping[str | None, int], free: Mapping[str, int], *, least: int) -> Verdict:
    """Whether the subnets have addresses for the nodes, in their zones and all together; `least` in each."""
    fix = "fewer nodes, or subnets with more room in cluster.attributes.privateSubnetIds"
    for zone, count in free.items():
        if count < least:
            return fails(f"{count} free in {zone}; EKS needs {least} in each", fix)
    for asked, count in needed.items():
        zone = asked or ""
        if zone and count > free.get(zone, 0):
            return fails(f"nodes need {count} in {zone}; {free.get(zone, 0)} are free", fix)
    total, all_free = sum(needed.values()), sum(free.values())
    if total > all_free:
        return fails(f"nodes need {total}; {all_free} are free", fix)
    return ok(f"nodes need {total}; {all_free} are free")


def reachable(names: Sequence[str], zones: Sequence[str], said: Said | None) -> Verdict:
    """Whether AWS offers the services' endpoints, in every zone of the VPC."""
    offered: dict[str, Mapping[str, Any]] = {
        entry["ServiceName"]: entry for entry in (said or {}).get("ServiceDetails", ())
    }
    missing = [name for name in names if name not in offered]
    fix = "another region or zone, or closedNetwork: false"
    if missing:
        return fails(f"no endpoint for {', '.join(missing)}", fix)
    for name in names:
        has = offered[name].get("AvailabilityZoneIds")
        lacking = [zone for zone in zones if has and zone not in has]
        if lacking:
            return fails(f"no endpoint for {name} in {', '.join(lacking)}", fix)
    return ok(f"{len(names)} endpoints")
