"""Availability zones by id, for the Regions that have HyperPod: which a new VPC may use.

Zones in which EKS puts no control plane are left out.
https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html (read 2026-12-01)
https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (read 2026-12-01)
"""

from __future__ import annotations

import re

from hypertier.errors import ConfigError

MIN_ZONES = 2  # EKS puts its control plane into two zones at least
USUAL_ZONES = 3
"""So many does a new VPC have where nothing else is said."""

REGION = re.compile(r"[a-z]{2,4}(-[a-z]{2,12}){1,2}-[0-9]")

ZONE_NAME = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9][a-z]")
ZONE_ID = re.compile(r"[a-z]{2,6}[0-9](-[a-z0-9]+)?-az[0-9]{1,2}")

_NUMBERS_BY_PREFIX = {
    "apne1": (1, 2, 4),
    "apne2": (1, 2, 3, 4),
    "aps1": (1, 2, 3),
    "apse1": (1, 2, 3),
    "apse2": (1, 2, 3),
    "apse3": (1, 2, 3),
    "apse4": (1, 2, 3),
    "cac1": (1, 2, 4),
    "euc1": (1, 2, 3),
    "eun1": (1, 2, 3),
    "eus2": (1, 2, 3),
    "euw1": (1, 2, 3),
    "euw2": (1, 2, 3, 4),
    "sae1": (1, 2, 3),
    "use1": (1, 2, 4, 5, 6),
    "use2": (1, 2, 3),
    "usw1": (1, 3),
    "usw2": (1, 2, 3, 4),
}


def zones_beside(zone_id: str) -> tuple[str, ...]:
    """All zones of the Region of `zone_id` that a VPC may use; itself where the table has no such Region."""
    prefix, _, _ = zone_id.partition("-az")
    return tuple(f"{prefix}-az{number}" for number in _NUMBERS_BY_PREFIX.get(prefix, ())) or (zone_id,)


def zones_of(region: str) -> tuple[str, ...]:
    """The zones of `region` that a VPC may use; none where the table has no such Region.

    A zone's id begins with its Region in short: ap-northeast-1 is `apne1`.
    """
    area, _, rest = re.sub("(?<=north|south)(?=east|west)", "-", region).partition("-")
    short = area + "".join(word[0] for word in rest.split("-") if word)
    return tuple(f"{short}-az{number}" for number in _NUMBERS_BY_PREFIX.get(short, ()))


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
