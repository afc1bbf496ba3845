"""How many addresses nodes take from their subnets."""

from __future__ import annotations

from collections.abc import Iterable

from hypertier.spec.instance_group import InstanceGroup

# Addresses that the pods of one node take from its subnet, on the safe side: the VPC CNI keeps a network
# interface's worth of them, 50 on the largest types.
POD_ADDRESSES_PER_NODE = 50


def num_addresses(group: InstanceGroup, *, num_nodes: int | None = None) -> int:
    """Addresses that a group's nodes, or `num_nodes` of them, take from their subnets, on the safe side."""
    interfaces = 1 if group.efa_only else max(group.num_efa_interfaces, 1)
    count = group.count if num_nodes is None else num_nodes
    return count * (interfaces + POD_ADDRESSES_PER_NODE)


def addresses_by_zone(groups: Iterable[InstanceGroup]) -> dict[str | None, int]:
    """Addresses that the groups' nodes take from their subnets, by zone id; None for groups in any zone."""
    addresses: dict[str | None, int] = {}
    for group in groups:
        zone = group.availability_zone_id
        addresses[zone] = addresses.get(zone, 0) + num_addresses(group)
    return addresses
