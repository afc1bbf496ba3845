"""Zones by id: of each Region those that a new VPC for EKS may use."""

from __future__ import annotations

import pytest

from hypertier.catalog.zones import zones_beside, zones_of

# https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
WITHOUT_CONTROL_PLANE = {"us-east-1": "use1-az3", "us-west-1": "usw1-az2", "ca-central-1": "cac1-az3"}


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        pytest.param("eu-west-2", "euw2-az1 euw2-az2 euw2-az3 euw2-az4", id="four zones in a row"),
        pytest.param("ap-northeast-2", "apne2-az1 apne2-az2 apne2-az3 apne2-az4", id="a word of two"),
        pytest.param("ca-central-1", "cac1-az1 cac1-az2 cac1-az4", id="one left out"),
        pytest.param("xx-nowhere-1", "", id="no such Region"),
    ],
)
def test_the_zones_of_a_region_follow_from_its_name(region: str, expected: str) -> None:
    assert zones_of(region) == tuple(expected.split())


@pytest.mark.parametrize(("region", "zone_id"), WITHOUT_CONTROL_PLANE.items(), ids=str)
def test_a_zone_in_which_eks_puts_no_control_plane_is_left_out(region: str, zone_id: str) -> None:
    assert zone_id not in zones_of(region)
    assert len(zones_of(region)) >= 2


def test_the_zones_beside_one_are_those_of_its_region() -> None:
    assert zones_beside("euw2-az4") == zones_of("eu-west-2")
    assert zones_beside("xxn1-az7") == ("xxn1-az7",)
