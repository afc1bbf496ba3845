"""The VPC: zones by id, tags, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import aws_ec2 as ec2
from fakes_templates import new_stack, properties, resources, synthesize

from hypertier.errors import ConfigError
from hypertier_cdk import Network
from hypertier_cdk.network import filled_up


def tags(subnet: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in subnet["Tags"]}


def test_subnets_lie_in_the_zones_named_by_id() -> None:
    template = synthesize(
        lambda stack: Network(stack, "Network", availability_zone_ids=["usw2-az4", "usw2-az2"], max_azs=2)
    )

    subnets = properties(template, "AWS::EC2::Subnet")
    assert sorted(subnet["AvailabilityZoneId"] for subnet in subnets) == [
        "usw2-az2",
        "usw2-az2",
        "usw2-az4",
        "usw2-az4",
    ]
    assert not any("AvailabilityZone" in subnet for subnet in subnets)


@pytest.mark.parametrize(
    ("given", "num_zones", "expected"),
    [
        pytest.param((), 3, (), id="none: the account's own order"),
        pytest.param(("usw2-az2",), 3, ("usw2-az1", "usw2-az2", "usw2-az3"), id="one is filled up"),
        pytest.param(("use1-az2",), 3, ("use1-az1", "use1-az2", "use1-az4"), id="not with a zone EKS shuns"),
        pytest.param(("xyz9-az1", "xyz9-az7"), 3, ("xyz9-az1", "xyz9-az7"), id="an unknown Region"),
        pytest.param(("usw2-az1", "usw2-az4"), 2, ("usw2-az1", "usw2-az4"), id="enough are left alone"),
    ],
)
def test_missing_zones_are_filled_up_from_the_region(
    given: tuple[str, ...], num_zones: int, expected: tuple[str, ...]
) -> None:
    assert filled_up(given, num_zones) == expected


@pytest.mark.parametrize(
    ("zone_ids", "max_azs", "setting"),
    [
        pytest.param(["usw2-az1", "use1-az1"], 3, "availability_zone_ids", id="two Regions"),
        pytest.param(["xyz9-az1"], 3, "availability_zone_ids", id="one zone of an unknown Region"),
        pytest.param([], 1, "max_azs", id="one zone"),
    ],
)
def test_zones_that_eks_cannot_use_are_refused(zone_ids: list[str], max_azs: int, setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Network(new_stack(), "Network", availability_zone_ids=zone_ids, max_azs=max_azs)

    assert refused.value.setting == setting


def test_without_ids_the_account_s_first_three_zones_are_taken() -> None:
    template = synthesize(lambda stack: Network(stack, "Network"))

    zones = [
        subnet["AvailabilityZone"]["Fn::Select"][0] for subnet in properties(template, "AWS::EC2::Subnet")
    ]
    assert sorted(zones) == [0, 0, 1, 1, 2, 2]


def test_private_subnets_are_marked_for_internal_load_balancers(reference: Any) -> None:
    private = [
        subnet
        for subnet in properties(reference.template, "AWS::EC2::Subnet")
        if not subnet.get("MapPublicIpOnLaunch")
    ]

    assert len(private) == 3
    assert all(tags(subnet)["kubernetes.io/role/internal-elb"] == "1" for subnet in private)


def test_the_subnet_of_a_zone_is_the_one_with_its_id() -> None:
    stack = new_stack()
    network = Network(stack, "Network", availability_zone_ids=["usw2-az1", "usw2-az2", "usw2-az3"])

    subnet = network.subnet_in("usw2-az2")

    resource = subnet.node.default_child
    assert isinstance(resource, ec2.CfnSubnet)
    assert resource.availability_zone_id == "usw2-az2"


def test_a_zone_that_the_network_does_not_have_is_refused_with_those_it_has() -> None:
    network = Network(new_stack(), "Network", availability_zone_ids=["usw2-az1", "usw2-az2"], max_azs=2)

    with pytest.raises(ConfigError, match="usw2-az1, usw2-az2"):
        network.subnet_in("usw2-az9")


def test_an_existing_vpc_is_taken_and_nothing_is_made() -> None:
    def build(stack: Any) -> None:
        vpc = ec2.Vpc.from_vpc_attributes(
            stack,
            "Mine",
            vpc_id="vpc-1",
            availability_zones=["us-west-2a", "us-west-2b"],
            private_subnet_ids=["subnet-1", "subnet-2"],
        )
        network = Network(stack, "Network", existing=vpc)
        assert [subnet.subnet_id for subnet in network.private_subnets] == ["subnet-1", "subnet-2"]

    template = synthesize(build)

    assert "Resources" not in template


def test_a_closed_network_has_no_way_to_the_internet() -> None:
    template = synthesize(lambda stack: Network(stack, "Network", closed=True))

    assert not resources(template, "AWS::EC2::NatGateway")
    assert not resources(template, "AWS::EC2::InternetGateway")
