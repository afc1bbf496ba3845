"""An existing cluster is told by its attributes, and attributes tell of an existing cluster."""

from __future__ import annotations

from typing import Any

import pytest

from hypertier.errors import ConfigError
from hypertier.spec.cluster import Cluster, ClusterAttributes


def attributes(**changes: Any) -> ClusterAttributes:
    whole: dict[str, Any] = {
        "availability_zones": ("us-west-2a", "us-west-2b"),
        "private_subnet_ids": ("subnet-1", "subnet-2"),
        "vpc_id": "vpc-1",
        "eks_cluster_name": "prod",
        "eks_security_group_id": "sg-1",
        "arn": "arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefghijkl",
        "node_security_group_id": "sg-2",
    }
    return ClusterAttributes(**(whole | changes))


OIDC = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/ABC"
VPC_ALONE = dict.fromkeys(
    ("eks_cluster_name", "eks_security_group_id", "arn", "node_security_group_id"), None
)
EKS_ALONE = dict.fromkeys(("arn", "node_security_group_id"), None)


def test_attributes_belong_to_an_existing_cluster() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.existing is not set"):
        Cluster(attributes=attributes())
    with pytest.raises(ConfigError, match=r"cluster\.attributes\.arn is not set"):
        Cluster(existing="prod", attributes=attributes(**EKS_ALONE))

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


@pytest.mark.parametrize(
    ("told", "eks"),
    [pytest.param(VPC_ALONE, None, id="a VPC"), pytest.param(EKS_ALONE, "prod", id="an EKS cluster")],
)
def test_a_new_cluster_comes_onto_what_exists(told: dict[str, Any], eks: str | None) -> None:
    cluster = Cluster(attributes=attributes(**told))

    assert (cluster.existing, cluster.existing_eks) == (None, eks)


@pytest.mark.parametrize(
    ("told", "setting"),
    [
        pytest.param({"eks_security_group_id": None}, "eksSecurityGroupId", id="no group of the EKS cluster"),
        pytest.param({"node_security_group_id": None}, "nodeSecurityGroupId", id="no group of the nodes"),
        pytest.param(VPC_ALONE | {"addons": ("coredns",)}, "eksClusterName", id="add-ons of no cluster"),
        pytest.param(VPC_ALONE | {"namespaces": ("a",)}, "eksClusterName", id="namespaces of no cluster"),
        pytest.param(VPC_ALONE | {"oidc_provider_arn": OIDC}, "eksClusterName", id="an issuer of no cluster"),
        pytest.param(
            {"eks_cluster_name": None, "eks_security_group_id": None}, "eksClusterName", id="no EKS"
        ),
        pytest.param(
            {"availability_zone_ids": ("usw2-az1",)}, "availabilityZoneIds", id="a zone without an id"
        ),
        pytest.param({"availability_zone_ids": ("a", "b")}, "availabilityZoneIds", id="no ids"),
        pytest.param({"private_subnet_cidrs": ("10.0.0.0/18",)}, "privateSubnetCidrs", id="one range of two"),
    ],
)
def test_what_exists_is_told_whole(told: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        attributes(**told)

    assert refused.value.setting == f"cluster.attributes.{setting}"


def test_an_existing_cluster_is_not_autoscaled() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.autoscaling is true; expected false: prod is"):
        Cluster(existing="prod", attributes=attributes(), autoscaling=True)
