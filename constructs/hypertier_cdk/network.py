"""The VPC: private subnets for nodes, tagged for internal load balancers, in zones named by id."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from hypertier.catalog.zones import zones_beside
from hypertier.errors import ConfigError

MIN_ZONES = 2  # EKS puts its control plane into two zones at least


def filled_up(zone_ids: tuple[str, ...], num_zones: int) -> tuple[str, ...]:
    """The zones, and so many others of their Region that there are `num_zones`; in the order of their ids.

    Raises:
        ConfigError: where the zones are of several Regions, or fewer than EKS needs.
    """
    if not zone_ids:
        return ()
    if len({zone_id.partition("-az")[0] for zone_id in zone_ids}) > 1:
        raise ConfigError("availability_zone_ids", list(zone_ids), "zones of one Region")
    others = [zone_id for zone_id in zones_beside(zone_ids[0]) if zone_id not in zone_ids]
    filled = sorted((*zone_ids, *others[: max(num_zones - len(zone_ids), 0)]))
    if len(filled) < MIN_ZONES:
        raise ConfigError("availability_zone_ids", list(zone_ids), "two zones or more: EKS needs two")
    return tuple(filled)


class Network(Construct):
    """A VPC of private subnets over several zones, or an `existing` one, which is never changed.

    `availability_zone_ids` names the zones by id (`usw2-az2`), the same in every account, unlike names; a
    training plan's capacity lies in one of them. Others of the same Region fill them up to `max_azs`. Without
    any the first `max_azs` zones of the account are taken. `closed=True` leaves out the way to the internet.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        availability_zone_ids: Sequence[str] = (),
        max_azs: int = 3,
        closed: bool = False,
        existing: ec2.IVpc | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if max_azs < MIN_ZONES:
            raise ConfigError("max_azs", max_azs, f"{MIN_ZONES} or more: EKS needs two zones")
        self.availability_zone_ids = filled_up(tuple(dict.fromkeys(availability_zone_ids)), max_azs)
        self.closed = closed
        self.vpc = existing or self._new_vpc(len(self.availability_zone_ids) or max_azs)
        self.private_subnets = self.vpc.isolated_subnets if closed else self.vpc.private_subnets

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

    def _new_vpc(self, num_zones: int) -> ec2.Vpc:
        private = ec2.SubnetType.PRIVATE_ISOLATED if self.closed else ec2.SubnetType.PRIVATE_WITH_EGRESS
        subnets = [ec2.SubnetConfiguration(name="Private", subnet_type=private, cidr_mask=18)]
        if not self.closed:
            public = ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24)
            subnets.append(public)
        vpc = ec2.Vpc(
            self,
            "Vpc",
            # Tokens, not max_azs: a stack without an account knows two zones only.
            availability_zones=[cdk.Fn.select(zone, cdk.Fn.get_azs()) for zone in range(num_zones)],
            subnet_configuration=subnets,
            restrict_default_security_group=False,
        )
        for zone_subnets in (vpc.public_subnets, vpc.private_subnets, vpc.isolated_subnets):
            for subnet, zone_id in zip(zone_subnets, self.availability_zone_ids, strict=False):
                resource = subnet.node.default_child
                assert isinstance(resource, ec2.CfnSubnet)
                resource.availability_zone = None
                resource.availability_zone_id = zone_id
        for subnet in (*vpc.private_subnets, *vpc.isolated_subnets):
            cdk.Tags.of(subnet).add("kubernetes.io/role/internal-elb", "1")
        return vpc
