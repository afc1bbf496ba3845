"""An existing cluster is told by its attributes, and attributes tell of an existing cluster."""

from __future__ import annotations

import pytest

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Cluster, ClusterAttributes


def attributes(**changes: tuple[str, ...]) -> ClusterAttributes:
    zones: dict[str, tuple[str, ...]] = {
        "availability_zones": ("us-west-2a", "us-west-2b"),
        "private_subnet_ids": ("subnet-1", "subnet-2"),
    }
    return ClusterAttributes(
        arn="arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefghijkl",
        eks_cluster_name="prod",
        eks_security_group_id="sg-1",
        node_security_group_id="sg-2",
        vpc_id="vpc-1",
        **(zones | changes),
    )


def test_attributes_belong_to_an_existing_cluster() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.existing is not set"):
        Cluster(attributes=attributes())

    assert Cluster(existing="prod", attributes=attributes()).existing == "prod"


@pytest.mark.parametrize("cidr", ["fd00::/8", "10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "everywhere"])
def test_clients_come_from_ranges_of_ipv4(cidr: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.clientCidrs is .*IPv4"):
        Cluster(client_cidrs=("10.0.0.0/8", cidr))
    with pytest.raises(ConfigError, match=r"cluster\.attributes\.vpcCidrs is .*IPv4"):
        attributes(vpc_cidrs=(cidr,))


def test_every_zone_has_its_subnet() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.attributes\.privateSubnetIds .*us-west-2a, us-west-2b"):
        attributes(private_subnet_ids=("subnet-1",))
