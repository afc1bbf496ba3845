"""Whether the zones are the account's, and offer what the groups of nodes are of.

SageMaker publishes no list of what it offers where; an ml.* type is the EC2 type of the same name, and what
EC2 does not have in a zone SageMaker can't have there. Whether any is free nobody tells.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html
(read 2026-12-02)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypertier.catalog.zones import USUAL_ZONES
from hypertier.doctor.check import Check, Question, Said, Talk, Verdict, fails, ok, question
from hypertier.doctor.checks import calls
from hypertier.planning.made import makes_hyperpod, makes_network, zone_ids
from hypertier.spec.deployment import Deployment
from hypertier.spec.instance_group import InstanceGroup


def checks(deployment: Deployment) -> Iterator[Check]:
    """The zones of a new VPC, and each group's types in its zone."""
    if makes_network(deployment):
        yield _zones(deployment)
    if makes_hyperpod(deployment):
        for group in deployment.instance_groups:
            yield _offers(deployment, group)


def _zones(deployment: Deployment) -> Check:
    def talk() -> Talk:
        return usable(zone_ids(deployment), ids_of((yield calls.zones())), deployment.region)

    return Check("zones of the VPC", talk, (calls.zones(),))


def _offers(deployment: Deployment, group: InstanceGroup) -> Check:
    asked = offerings(group.all_instance_types)
    subnets = calls.subnets(deployment)
    asks = [asked]
    if not zone_ids(deployment):
        asks.append(calls.zones() if makes_network(deployment) else subnets)

    def talk() -> Talk:
        offered = by_type((yield asked))
        zones: Sequence[str] = (
            [group.availability_zone_id] if group.availability_zone_id else zone_ids(deployment)
        )
        if not zones and makes_network(deployment):
            zones = ids_of((yield calls.zones()))[:USUAL_ZONES]
        elif not zones:
            said = yield subnets
            zones = [subnet["AvailabilityZoneId"] for subnet in (said or {}).get("Subnets", ())]
        return offering(group.all_instance_types, offered, zones)

    return Check(f"instance type of {group.name}", talk, tuple(asks))


def offerings(instance_types: Sequence[str]) -> Question:
    """In which zones EC2 has these types."""
    names = [name.removeprefix("ml.") for name in instance_types]
    return question(
        "ec2",
        "DescribeInstanceTypeOfferings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": names}],
    )


def by_type(said: Said | None) -> dict[str, list[str]]:
    """SageMaker's type -> the zones that have it, in order."""
    offered: dict[str, list[str]] = {}
    for entry in (said or {}).get("InstanceTypeOfferings", ()):
        offered.setdefault(f"ml.{entry['InstanceType']}", []).append(entry["Location"])
    return {name: sorted(zones) for name, zones in offered.items()}


def ids_of(said: Said | None) -> list[str]:
    """The ids of zones, by their names, as CloudFormation takes the first ones."""
    zones = sorted((said or {}).get("AvailabilityZones", ()), key=lambda zone: str(zone["ZoneName"]))
    return [zone["ZoneId"] for zone in zones]


def usable(wanted: Sequence[str], available: Sequence[str], region: str) -> Verdict:
    """Whether the account has the zones of a new VPC; without `wanted` ones it needs so many."""
    missing = [zone for zone in wanted if zone not in available]
    has = f"the account has {', '.join(available) or 'none'} in {region}"
    if missing:
        return fails(
            f"{', '.join(missing)} can't be used; {has}",
            "availabilityZoneId of instanceGroups: zones that the account has; three of them by name",
        )
    if len(available) < USUAL_ZONES and not wanted:
        return fails(
            f"a VPC takes {USUAL_ZONES} zones; {has}",
            "name one: availabilityZoneId of a group, which takes the zones that the Region has",
        )
    return ok(", ".join(wanted) or f"the first {USUAL_ZONES} of {', '.join(available)}")


def offering(
    instance_types: Sequence[str], offered: Mapping[str, Sequence[str]], zones: Sequence[str]
) -> Verdict:
    """Whether one of the types is to be had in one of the zones."""
    for instance_type in instance_types:
        found = [zone for zone in zones if zone in offered.get(instance_type, ())]
        if found:
            return ok(f"EC2 offers {instance_type} in {', '.join(found)}; whether any is free is not told")
    elsewhere = sorted({zone for name in instance_types for zone in offered.get(name, ())})
    types = ", ".join(instance_types)
    if not elsewhere:
        return fails(f"EC2 offers {types} nowhere in this Region", "another instanceType, or another region")
    return fails(
        f"EC2 does not offer {types} in {', '.join(zones)}",
        f"availabilityZoneId: one of {', '.join(elsewhere)}",
    )
