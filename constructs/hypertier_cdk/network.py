"""The VPC: private subnets for nodes in zones named by id, with or without a way to the internet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from hypertier.catalog.vpc_services import services_for
from hypertier.catalog.zones import MIN_ZONES, USUAL_ZONES, ZONE_ID, filled_up
from hypertier.errors import ConfigError
from hypertier.spec.cluster import check_cidr
from hypertier_cdk.arguments import checked
from hypertier_cdk.forms import SubnetId, VpcId, ZoneName
from hypertier_cdk.images import images_of, is_reachable_image
from hypertier_cdk.nag import accept
from hypertier_cdk.roles import WRITE_LOGS, allow, policies

MAX_ZONES = 6  # no Region of AWS has more
PRIVATE_CIDR_MASK = 18
# https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
ADDRESSES_AWS_KEEPS = 5


class Network(Construct):
    """A VPC of private subnets over several zones; one that exists comes by `from_vpc_attributes`.

    `availability_zone_ids` names the zones by id (`usw2-az2`), the same in every account, unlike names; a
    training plan's capacity lies in one of them. Others of the same Region fill them up to `max_azs`. Without
    any the first `max_azs` zones of the account are taken. `closed=True` leaves out the way to the internet:
    AWS is reached through endpoints, which whoever needs them asks for with `reach`, and what only the
    internet has is refused when the app is synthesized.

    Attributes:
        vpc: the VPC.
        cidrs: its address ranges; empty where they are not known.
        private_subnets: where nodes, the control plane and L2 live.
        availability_zone_ids: the zones of `private_subnets`, in their order; empty where ids were not given.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        availability_zone_ids: Sequence[str] = (),
        max_azs: int = USUAL_ZONES,
        closed: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        if not MIN_ZONES <= max_azs <= MAX_ZONES:
            raise ConfigError(
                "max_azs",
                max_azs,
                f"{MIN_ZONES} to {MAX_ZONES}: EKS needs two zones, and no Region has more than six",
            )
        _check_zone_ids(availability_zone_ids)
        self.closed = closed
        self.availability_zone_ids = filled_up(tuple(dict.fromkeys(availability_zone_ids)), max_azs)
        vpc = self._new_vpc(len(self.availability_zone_ids) or max_azs)
        each = 2 ** (32 - PRIVATE_CIDR_MASK) - ADDRESSES_AWS_KEEPS
        num_subnets = len(vpc.private_subnets) + len(vpc.isolated_subnets)
        self._take(vpc, (vpc.vpc_cidr_block,), [each] * num_subnets)
        self._is_new = True

    @staticmethod
    @checked
    def from_vpc(
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        vpc_cidrs: Sequence[str] = (),
        availability_zone_ids: Sequence[str] = (),
        closed: bool = False,
    ) -> Network:
        """A VPC of the CDK's, made elsewhere or looked up; it is never changed.

        `vpc_cidrs` are all its address ranges; without them endpoints admit clients from anywhere.
        `availability_zone_ids` are the zones of its private subnets, in their order.
        """
        return _ExistingNetwork(
            scope, construct_id, lambda _: vpc, vpc_cidrs, availability_zone_ids, closed=closed
        )

    @staticmethod
    @checked
    def from_vpc_attributes(
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: VpcId,
        availability_zones: Sequence[ZoneName],
        private_subnet_ids: Sequence[SubnetId],
        private_subnet_cidrs: Sequence[str] = (),
        vpc_cidrs: Sequence[str] = (),
        availability_zone_ids: Sequence[str] = (),
        closed: bool = False,
    ) -> Network:
        """A VPC that exists already, as `aws ec2 describe-vpcs` and `describe-subnets` tell of it.

        As `from_vpc`; with `private_subnet_cidrs` more nodes than the subnets have addresses for are refused.
        How many of those are taken is not known here.
        """
        zones = list(availability_zones)
        for setting, given in (
            ("private_subnet_ids", list(private_subnet_ids)),
            *((("private_subnet_cidrs", list(private_subnet_cidrs)),) if private_subnet_cidrs else ()),
        ):
            if len(given) != len(zones):
                raise ConfigError(setting, given, f"one for each of availability_zones, {', '.join(zones)}")
        for cidr in private_subnet_cidrs:
            check_cidr("private_subnet_cidrs", cidr)

        def vpc_in(network: Construct) -> ec2.IVpc:
            vpc = ec2.Vpc.from_vpc_attributes(
                network,
                "Vpc",
                vpc_id=vpc_id,
                availability_zones=zones,
                private_subnet_ids=list(private_subnet_ids),
                private_subnet_ipv4_cidr_blocks=list(private_subnet_cidrs) or None,
            )
            for subnet in vpc.private_subnets:
                cdk.Annotations.of(subnet).acknowledge_warning(
                    "@aws-cdk/aws-ec2:noSubnetRouteTableId", "no route is added to a network that exists"
                )
            return vpc

        return _ExistingNetwork(
            scope,
            construct_id,
            vpc_in,
            vpc_cidrs,
            availability_zone_ids,
            closed=closed,
            subnet_cidrs=private_subnet_cidrs,
        )

    def _take(self, vpc: ec2.IVpc, cidrs: Sequence[str], room: list[int] | None) -> None:
        """Live in `vpc`; `room` is how many addresses each private subnet has, None where it is not known."""
        self.vpc = vpc
        self.cidrs = tuple(cidrs)
        self.private_subnets = self._private_subnets()
        self._room: list[int] | None = room
        self._endpoints: dict[str, ec2.InterfaceVpcEndpoint] = {}
        self._endpoints_group: ec2.SecurityGroup | None = None

    def subnet_in(self, availability_zone_id: str) -> ec2.ISubnet:
        """The private subnet in that zone.

        Raises:
            ConfigError: where the network was not made with this zone's id.
        """
        if availability_zone_id not in self.availability_zone_ids:
            raise ConfigError(
                "availability_zone_id",
                availability_zone_id,
                "one of the network's availability_zone_ids, which are "
                + (", ".join(self.availability_zone_ids) or "not given"),
            )
        return self.private_subnets[self.availability_zone_ids.index(availability_zone_id)]

    def reach(self, *needs: str) -> None:
        """Let a closed network reach what these needs call (`vpc_services.SERVICES_BY_NEED`).

        An open network has a way to everything, and an existing VPC is never changed: its owner adds
        endpoints.
        """
        if not self.closed or not self._is_new:
            return
        group = self._endpoints_group or self._new_endpoints_group()
        for service in services_for(needs):
            if service not in self._endpoints:
                self._endpoints[service] = ec2.InterfaceVpcEndpoint(
                    self,
                    f"Endpoint-{service}",
                    vpc=self.vpc,
                    service=ec2.InterfaceVpcEndpointAwsService(service),
                    subnets=ec2.SubnetSelection(subnets=self.private_subnets),
                    security_groups=[group],
                    open=False,
                )

    def refuse_internet(self, setting: str, got: object, instead: str) -> None:
        """Refuse what only the internet has, where there is none.

        Raises:
            ConfigError: the network is closed; says what to do `instead`.
        """
        if self.closed:
            raise ConfigError(
                setting, got, f"{instead}: the network is closed and has no way to the internet"
            )

    def refuse_unreachable_images(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Refuse Kubernetes objects whose images no node of a closed network can pull.

        Raises:
            ConfigError: an image does not lie in Amazon ECR.
        """
        for manifest in objects:
            name = f"{manifest.get('kind')} {manifest.get('metadata', {}).get('name')}"
            for image in images_of(manifest):
                self.refuse_unreachable_image(f"image of {name}", image)

    def refuse_unreachable_image(self, setting: str, image: str | None) -> None:
        """Refuse an image that no node of a closed network can pull; None is none.

        Raises:
            ConfigError: it does not lie in Amazon ECR; names `setting`.
        """
        if image is not None and not is_reachable_image(image):
            instead = "an image in Amazon ECR, for example behind a pull-through cache rule"
            self.refuse_internet(setting, image, instead)

    def check_room(self, num_addresses: Mapping[str | None, int]) -> None:
        """Refuse more nodes than the subnets have addresses for: by zone id, or None for nodes in any zone.

        Raises:
            ConfigError: a zone's subnet, or all of them together, are too small.
        """
        if self._room is None:
            return
        asked: dict[str | None, int] = {zone: count for zone, count in num_addresses.items() if zone}
        asked[None] = sum(num_addresses.values())
        for zone, count in asked.items():
            known = zone in self.availability_zone_ids  # else `subnet_in` says so
            room = self._room[self.availability_zone_ids.index(zone)] if zone and known else sum(self._room)
            if count > room:
                raise ConfigError(
                    "instance_groups",
                    f"nodes with {count} addresses in {zone or 'all zones'}",
                    f"nodes with at most {room}, which is what the private subnets there have: fewer nodes, "
                    "or a larger VPC by `from_vpc`",
                )

    def _private_subnets(self) -> list[ec2.ISubnet]:
        subnets = [*self.vpc.private_subnets, *self.vpc.isolated_subnets]
        if len(subnets) < MIN_ZONES:
            raise ConfigError(
                "vpc",
                f"a VPC with {len(subnets)} private subnets",
                f"{MIN_ZONES} private subnets or more: HyperPod's nodes live in private ones alone",
            )
        return subnets

    def _new_vpc(self, num_zones: int) -> ec2.Vpc:
        inside = ec2.SubnetType.PRIVATE_ISOLATED if self.closed else ec2.SubnetType.PRIVATE_WITH_EGRESS
        kinds = [ec2.SubnetConfiguration(name="Private", subnet_type=inside, cidr_mask=PRIVATE_CIDR_MASK)]
        if not self.closed:
            kinds.append(
                ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24)
            )
        zones = cdk.Fn.get_azs()
        vpc = ec2.Vpc(
            self,
            "Vpc",
            # Tokens, not max_azs: a stack without an account knows two zones only.
            availability_zones=[cdk.Fn.select(zone, zones) for zone in range(num_zones)],
            subnet_configuration=kinds,
            # Would bring a custom resource along, for a group that nothing here uses.
            restrict_default_security_group=False,
        )
        # Asked for once, in the order of `kinds`: each question goes to another process.
        made = vpc.node.find_all()
        subnets = [found for found in made if isinstance(found, ec2.CfnSubnet)]
        tables = [found for found in made if isinstance(found, ec2.CfnRouteTable)]
        for number, subnet in enumerate(subnets):
            # How the load balancer controller finds subnets.
            role = "internal-elb" if number < num_zones else "elb"
            subnet.tags.set_tag(f"kubernetes.io/role/{role}", "1")
            if self.availability_zone_ids:
                subnet.availability_zone = None
                subnet.availability_zone_id = self.availability_zone_ids[number % num_zones]
        # Not by a method of the VPC's, which brings the CDK's table of all endpoints along.
        ec2.CfnVPCEndpoint(
            vpc,
            "S3",
            vpc_id=vpc.vpc_id,
            service_name=f"com.amazonaws.{cdk.Stack.of(self).region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.ref for table in tables],
        )
        self._log_traffic(vpc.vpc_id)
        return vpc

    def _log_traffic(self, vpc_id: str) -> None:
        log_group = logs.LogGroup(
            self,
            "FlowLogs",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        role = iam.Role(
            self,
            "FlowLogsRole",
            assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"),
            description="logs the traffic of the VPC",
            inline_policies=policies(
                allow("Log", [*WRITE_LOGS, "logs:DescribeLogStreams"], [log_group.log_group_arn])
            ),
        )
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=vpc_id,
            resource_type="VPC",
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=log_group.log_group_name,
            deliver_logs_permission_arn=role.role_arn,
        )

    def _new_endpoints_group(self) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self, "EndpointsGroup", vpc=self.vpc, description="VPC endpoints", allow_all_outbound=False
        )
        group.add_ingress_rule(
            ec2.Peer.ipv4(self.vpc.vpc_cidr_block), ec2.Port.tcp(443), "HTTPS from the VPC"
        )
        accept(group, "open to the network's own addresses, which the rule can't resolve", "EC23")
        self._endpoints_group = group
        return group


class _ExistingNetwork(Network):
    """A VPC of somebody else's, as it is."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        vpc_in: Callable[[Construct], ec2.IVpc],
        vpc_cidrs: Sequence[str],
        availability_zone_ids: Sequence[str],
        *,
        closed: bool,
        subnet_cidrs: Sequence[str] = (),
    ) -> None:
        Construct.__init__(self, scope, construct_id)  # not Network's, which makes one
        _check_zone_ids(availability_zone_ids)
        for cidr in vpc_cidrs:
            check_cidr("vpc_cidrs", cidr)
        self.closed = closed
        self._is_new = False
        self.availability_zone_ids = tuple(availability_zone_ids)
        room = [ip_network(cidr).num_addresses - ADDRESSES_AWS_KEEPS for cidr in subnet_cidrs]
        self._take(vpc_in(self), vpc_cidrs, room or None)
        if availability_zone_ids and len(availability_zone_ids) != len(self.private_subnets):
            raise ConfigError(
                "availability_zone_ids",
                list(availability_zone_ids),
                f"one for each private subnet, in their order; the VPC has {len(self.private_subnets)}",
            )


def _check_zone_ids(zone_ids: Sequence[str]) -> None:
    for zone_id in zone_ids:
        if not ZONE_ID.fullmatch(zone_id):
            raise ConfigError("availability_zone_ids", list(zone_ids), "ids of zones, such as usw2-az2")
