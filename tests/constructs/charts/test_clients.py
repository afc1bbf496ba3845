"""Who may send requests: pods, the VPC and the networks that are named, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from fakes_charts import deployment

from hypertier.errors import ConfigError
from hypertier.spec.cluster import Cluster, ClusterAttributes
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.names import ROUTER_PORT
from hypertier_cdk.charts.objects import endpoint_objects

VPC = "10.0.0.0/16"
OFFICE = "192.0.2.0/24"
STORE = "rediss://store.example.com:6379"
TLS = {
    "spec.tlsConfig": {
        "customCertificateConfig": {
            "acmArn": "arn:aws:acm:us-west-2:123456789012:certificate/1",
            "domainName": "llm.example.com",
        }
    }
}


def objects_of(clients: tuple[str, ...], inputs: ChartInputs, changes: Any = None) -> list[dict[str, Any]]:
    wanted = deployment(changes, cluster=Cluster(client_cidrs=clients))
    return endpoint_objects(wanted, wanted.endpoints[0], inputs)


def blocks(objects: list[dict[str, Any]], component: str, direction: str, port: int) -> list[str]:
    (policy,) = (
        entry
        for entry in objects
        if entry["kind"] == "NetworkPolicy" and entry["metadata"]["name"].endswith(component)
    )
    peers = "from" if direction == "ingress" else "to"
    return [
        peer["ipBlock"]["cidr"]
        for rule in policy["spec"][direction]
        if rule["ports"][0]["port"] == port
        for peer in rule[peers]
        if "ipBlock" in peer
    ]


@pytest.mark.parametrize(
    ("vpc", "clients", "expected"),
    [
        pytest.param((VPC,), (), [VPC], id="the VPC"),
        pytest.param((VPC,), (OFFICE,), [VPC, OFFICE], id="the VPC and a peered network"),
        pytest.param((), (OFFICE,), [OFFICE], id="a network, and no VPC is known"),
        pytest.param((), (), ["0.0.0.0/0"], id="nothing is known"),
    ],
)
def test_clients_come_from_where_they_are_said_to_be(
    vpc: tuple[str, ...], clients: tuple[str, ...], expected: list[str]
) -> None:
    objects = objects_of(clients, ChartInputs(vpc_cidrs=vpc))

    assert blocks(objects, "router", "ingress", ROUTER_PORT) == expected


@pytest.mark.parametrize(
    ("vpc", "clients", "expected"),
    [
        pytest.param((VPC,), (OFFICE,), f"{VPC},{OFFICE}", id="networks"),
        pytest.param((), (), None, id="nothing is known"),
    ],
)
def test_the_load_balancer_admits_the_same(
    vpc: tuple[str, ...], clients: tuple[str, ...], expected: str | None
) -> None:
    objects = objects_of(clients, ChartInputs(vpc_cidrs=vpc), TLS)

    (ingress,) = (entry for entry in objects if entry["kind"] == "Ingress")
    assert ingress["metadata"]["annotations"].get("alb.ingress.kubernetes.io/inbound-cidrs") == expected


def test_a_load_balancer_reaches_the_router_where_no_vpc_is_known() -> None:
    objects = objects_of((OFFICE,), ChartInputs(), TLS)

    (ingress,) = (entry for entry in objects if entry["kind"] == "Ingress")
    assert blocks(objects, "router", "ingress", ROUTER_PORT) == ["0.0.0.0/0"]
    assert ingress["metadata"]["annotations"]["alb.ingress.kubernetes.io/inbound-cidrs"] == OFFICE


@pytest.mark.parametrize(
    ("inputs", "changes", "expected"),
    [
        pytest.param(ChartInputs(vpc_cidrs=(VPC,), l2_url=STORE), None, [VPC], id="the CDK's own"),
        pytest.param(
            ChartInputs(vpc_cidrs=(VPC,), l2_url=STORE, l2_in_vpc=False), None, ["0.0.0.0/0"], id="adopted"
        ),
        pytest.param(
            ChartInputs(vpc_cidrs=(VPC,)),
            {"spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": STORE},
            ["0.0.0.0/0"],
            id="somebody's own, anywhere",
        ),
    ],
)
def test_engines_reach_l2_where_it_may_be(inputs: ChartInputs, changes: Any, expected: list[str]) -> None:
    assert blocks(objects_of((), inputs, changes), "engine", "egress", 6379) == expected


@pytest.mark.parametrize("cidr", ["10.0.0.0", "10.0.0.1/8", "office", "", "10.0.0.0/33"])
def test_a_range_that_is_none_is_refused_as_it_was_typed(cidr: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.clientCidrs is"):
        Cluster(client_cidrs=(cidr,))
    with pytest.raises(ConfigError, match=r"cluster\.attributes\.vpcCidrs is"):
        ClusterAttributes(
            arn="a",
            eks_cluster_name="e",
            eks_security_group_id="sg-1",
            node_security_group_id="sg-2",
            vpc_id="vpc-1",
            availability_zones=("us-west-2a",),
            private_subnet_ids=("subnet-1",),
            vpc_cidrs=(cidr,),
        )
