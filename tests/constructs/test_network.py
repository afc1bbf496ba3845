"""The VPC: zones by id, tags, what is refused."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from fakes_templates import new_stack, properties, resources, synthesize, the

from hypertier.catalog.vpc_services import SERVICES_BY_NEED, services_for
from hypertier.catalog.zones import filled_up
from hypertier.errors import ConfigError
from hypertier_cdk import Network


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
        pytest.param([], 10**30, "max_azs", id="more zones than there are"),
        pytest.param(["us-west-2a", "us-west-2b"], 3, "availability_zone_ids", id="names of zones"),
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


def adopted(stack: Any, **settings: Any) -> Network:
    return Network.from_vpc_attributes(
        stack,
        "Network",
        **{
            "vpc_id": "vpc-1",
            "availability_zones": ["us-west-2a", "us-west-2b"],
            "private_subnet_ids": ["subnet-1", "subnet-2"],
            **settings,
        },
    )


def test_a_vpc_of_the_same_app_is_taken_as_it_is() -> None:
    stack = new_stack()
    vpc = ec2.Vpc(stack, "Mine", max_azs=2)

    network = Network.from_vpc(stack, "Network", vpc=vpc, vpc_cidrs=["10.0.0.0/16"])

    assert network.vpc is vpc
    assert network.cidrs == ("10.0.0.0/16",)
    assert network.node.children == []


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        pytest.param(
            {"private_subnet_ids": ["subnet-1"]}, "private_subnet_ids", id="a zone without a subnet"
        ),
        pytest.param({"private_subnet_cidrs": ["10.0.0.0/18"]}, "private_subnet_cidrs", id="one range"),
        pytest.param({"private_subnet_cidrs": ["10.0.0.0/18", "x"]}, "private_subnet_cidrs", id="no range"),
        pytest.param({"vpc_cidrs": ["fd00::/8"]}, "vpc_cidrs", id="a range of IPv6"),
        pytest.param({"availability_zone_ids": ["us-west-2a"]}, "availability_zone_ids", id="a zone's name"),
        pytest.param({"availability_zone_ids": ["usw2-az1"]}, "availability_zone_ids", id="one id of two"),
    ],
)
def test_what_is_told_of_an_existing_vpc_must_fit_together(settings: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        adopted(new_stack(), **settings)

    assert refused.value.setting == setting


def test_the_subnets_of_an_existing_vpc_have_room_for_the_nodes_as_far_as_is_known() -> None:
    told = adopted(
        new_stack(),
        private_subnet_cidrs=["10.0.0.0/24", "10.0.1.0/26"],
        availability_zone_ids=["usw2-az1", "usw2-az2"],
    )

    told.check_room({"usw2-az1": 251, "usw2-az2": 59})
    adopted(new_stack()).check_room({None: 10**6})
    with pytest.raises(ConfigError, match="at most 59"):
        told.check_room({"usw2-az2": 60})
    with pytest.raises(ConfigError, match="at most 310"):
        told.check_room({None: 311})


def test_an_existing_vpc_is_taken_and_nothing_is_made() -> None:
    def build(stack: Any) -> None:
        network = adopted(stack)
        assert [subnet.subnet_id for subnet in network.private_subnets] == ["subnet-1", "subnet-2"]

    template = synthesize(build)

    assert "Resources" not in template


ECR_IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/vllm:1"


def closed_network(stack: cdk.Stack, *needs: str) -> Network:
    network = Network(stack, "Network", closed=True)
    network.reach(*needs)
    return network


def interface_endpoints(template: dict[str, Any]) -> list[str]:
    services = [
        endpoint["ServiceName"]
        for endpoint in properties(template, "AWS::EC2::VPCEndpoint")
        if endpoint["VpcEndpointType"] == "Interface"
    ]
    return sorted(service.removeprefix("com.amazonaws.us-west-2.") for service in services)


def test_a_closed_network_has_no_way_to_the_internet() -> None:
    template = synthesize(closed_network)

    assert not resources(template, "AWS::EC2::NatGateway")
    assert not resources(template, "AWS::EC2::InternetGateway")
    assert not any(subnet["MapPublicIpOnLaunch"] for subnet in properties(template, "AWS::EC2::Subnet"))


@pytest.mark.parametrize("need", SERVICES_BY_NEED)
def test_a_closed_network_reaches_what_a_need_calls(need: str) -> None:
    template = synthesize(lambda stack: closed_network(stack, need))

    assert interface_endpoints(template) == sorted(SERVICES_BY_NEED[need])


def test_every_service_has_an_endpoint_of_that_name() -> None:
    kind = ec2.InterfaceVpcEndpointAwsService
    known = {getattr(kind, name).short_name for name in dir(kind) if name.isupper()}

    assert set(services_for(SERVICES_BY_NEED)) <= known


def test_what_two_needs_call_is_made_once() -> None:
    def build(stack: cdk.Stack) -> None:
        network = closed_network(stack, "nodes", "manifests")
        network.reach("secrets", "nodes")

    template = synthesize(build)

    services = interface_endpoints(template)
    assert services == list(services_for(["nodes", "manifests", "secrets"]))
    assert len(services) == len(set(services))


def test_endpoints_take_https_from_the_vpc_alone() -> None:
    template = synthesize(lambda stack: closed_network(stack, "nodes"))

    (group,) = properties(template, "AWS::EC2::SecurityGroup")
    (rule,) = group["SecurityGroupIngress"]
    assert rule["CidrIp"] == {"Fn::GetAtt": [next(iter(resources(template, "AWS::EC2::VPC"))), "CidrBlock"]}
    assert (rule["FromPort"], rule["ToPort"]) == (443, 443)


@pytest.mark.parametrize("closed", [pytest.param(True, id="closed"), pytest.param(False, id="open")])
def test_every_network_reaches_s3_without_paying_for_it(closed: bool) -> None:
    template = synthesize(lambda stack: Network(stack, "Network", closed=closed))

    (endpoint,) = properties(template, "AWS::EC2::VPCEndpoint")
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert "s3" in str(endpoint["ServiceName"])


def test_an_open_network_needs_no_endpoints() -> None:
    template = synthesize(lambda stack: Network(stack, "Network").reach("nodes", "secrets"))

    assert interface_endpoints(template) == []


def test_an_unknown_need_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="observability"):
        closed_network(new_stack(), "teleportation")


def deployment_of(image: str) -> dict[str, Any]:
    pod = {"initContainers": [{"image": ECR_IMAGE}], "containers": [{"name": "engine", "image": image}]}
    return {"kind": "Deployment", "metadata": {"name": "engine"}, "spec": {"template": {"spec": pod}}}


@pytest.mark.parametrize(
    "image", ["vllm/vllm-openai:v0.28.0", "public.ecr.aws/x/y:1", "nvcr.io/nvidia/k8s-device-plugin:1"]
)
def test_an_image_that_only_the_internet_has_is_refused_in_a_closed_network(image: str) -> None:
    network = Network(new_stack(), "Network", closed=True)

    with pytest.raises(ConfigError, match="pull-through cache") as refused:
        network.refuse_unreachable_images([deployment_of(image)])

    assert refused.value.got == image
    assert refused.value.setting == "image of Deployment engine"


@pytest.mark.parametrize(
    ("closed", "image"),
    [
        pytest.param(True, ECR_IMAGE, id="closed, from ECR"),
        pytest.param(False, "vllm/vllm-openai:v0.28.0", id="open, from the internet"),
    ],
)
def test_an_image_that_nodes_can_pull_is_taken(closed: bool, image: str) -> None:
    network = Network(new_stack(), "Network", closed=closed)

    network.refuse_unreachable_images([deployment_of(image)])


def test_an_image_built_by_the_app_itself_is_taken_in_a_closed_network() -> None:
    stack = new_stack()
    network = Network(stack, "Network", closed=True)
    repository = ecr.Repository(stack, "Images")

    network.refuse_unreachable_images([deployment_of(repository.repository_uri_for_tag("1"))])


@pytest.mark.parametrize(
    ("addresses", "where"),
    [
        pytest.param({"usw2-az1": 16_380}, "usw2-az1", id="one zone"),
        pytest.param({"usw2-az1": 16_379, None: 32_759}, "all zones", id="all zones together"),
    ],
)
def test_more_nodes_than_the_subnets_have_addresses_for_are_refused(
    addresses: dict[str | None, int], where: str
) -> None:
    network = Network(new_stack(), "Network", availability_zone_ids=["usw2-az1"])

    with pytest.raises(ConfigError, match=where):
        network.check_room(addresses)


def test_as_many_nodes_as_the_subnets_have_addresses_for_are_taken() -> None:
    network = Network(new_stack(), "Network", availability_zone_ids=["usw2-az1"])

    network.check_room({"usw2-az1": 16_379, None: 2 * 16_379})


def test_an_existing_vpc_without_two_private_subnets_is_refused() -> None:
    stack = new_stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Mine",
        vpc_id="vpc-1",
        availability_zones=["a", "b"],
        public_subnet_ids=["subnet-1", "subnet-2"],
    )

    with pytest.raises(ConfigError, match="private ones alone"):
        Network.from_vpc(stack, "Network", vpc=vpc)


def test_traffic_is_logged(reference: Any) -> None:
    flow_log = the(reference.template, "AWS::EC2::FlowLog")

    assert (flow_log["ResourceType"], flow_log["TrafficType"]) == ("VPC", "ALL")
