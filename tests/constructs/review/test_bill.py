"""The bill counts what runs all the time, and says "unknown" rather than guess."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hypertier.catalog.prices import PRICES as OUR_PRICES
from hypertier.catalog.prices import Price
from hypertier_cdk.review import bill as bill_module
from hypertier_cdk.review.bill import Bill, bill_of
from hypertier_cdk.review.templates import assembly_of

PRICES = {
    ("ml.p5.48xlarge", "us-west-2"): Price(60.0, "a contract", date(2026, 11, 30)),
    ("NAT gateway", "us-west-2"): Price(0.05, "a page", date(2026, 11, 30)),
    ("custom metric", "us-west-2"): Price(0.001, "a page", date(2026, 11, 30)),
}


def bill(resource_type: str, properties: dict[str, Any] | None = None, **options: Any) -> Bill:
    resources = {"It": {"Type": resource_type, "Properties": properties or {}}}
    return bill_of(assembly_of({"stack": {"Resources": resources}}), "us-west-2", PRICES, **options)


def group(**properties: Any) -> dict[str, Any]:
    return {"InstanceGroups": [{"InstanceGroupName": "gpu", "InstanceCount": 7} | properties]}


def test_a_known_price_is_multiplied_by_what_runs() -> None:
    found = bill("AWS::SageMaker::Cluster", group(InstanceType="ml.p5.48xlarge"))

    (line,) = found.lines
    assert (line.quantity, line.usd_per_hour, line.usd_per_month) == (7, 420.0, 420.0 * 730)
    assert found.unknown == ()


def test_an_unknown_price_is_said_and_counts_as_nothing() -> None:
    found = bill("AWS::SageMaker::Cluster", group(InstanceType="ml.g5.xlarge"))

    assert found.unknown == ("ml.g5.xlarge",)
    assert found.lines[0].usd_per_hour is None
    assert found.known_usd_per_month == 0


@pytest.mark.parametrize(
    ("resource_type", "properties", "item", "quantity"),
    [
        pytest.param(
            "AWS::ElastiCache::ReplicationGroup",
            {"CacheNodeType": "cache.r7g.4xlarge", "NumNodeGroups": 5, "ReplicasPerNodeGroup": 1},
            "cache.r7g.4xlarge",
            10,
            id="shards and their replicas",
        ),
        pytest.param(
            "AWS::EC2::VPCEndpoint",
            {"VpcEndpointType": "Interface", "SubnetIds": ["a", "b", "c"]},
            "VPC interface endpoint",
            3,
            id="an interface endpoint once a zone",
        ),
        pytest.param(
            "AWS::SageMaker::Cluster",
            group(InstanceRequirements={"InstanceTypes": ["ml.g5.xlarge", "ml.g6.xlarge"]}),
            "ml.g5.xlarge",
            7,
            id="the first of several types",
        ),
        pytest.param("AWS::EC2::NatGateway", {}, "NAT gateway", 1, id="a gateway"),
        pytest.param("AWS::CloudWatch::Alarm", {"Period": 60}, "alarm", 1, id="an alarm"),
        pytest.param(
            "AWS::CloudWatch::Alarm", {"Period": 10}, "high-resolution alarm", 1, id="an alarm of seconds"
        ),
        pytest.param(
            "AWS::CloudWatch::Alarm",
            {
                "Metrics": [
                    {"Id": "share", "Expression": "bad / all"},
                    {"Id": "bad", "MetricStat": {"Period": 300}},
                    {"Id": "all", "MetricStat": {"Period": 300}},
                ]
            },
            "alarm",
            2,
            id="an alarm by each metric that it watches",
        ),
        pytest.param("AWS::CloudWatch::CompositeAlarm", {}, "composite alarm", 1, id="an alarm of alarms"),
    ],
)
def test_what_is_counted(resource_type: str, properties: dict[str, Any], item: str, quantity: int) -> None:
    found = bill(resource_type, properties)

    assert [(line.item, line.quantity) for line in found.lines] == [(item, quantity)]


@pytest.mark.parametrize(
    ("properties", "note"),
    [
        pytest.param({"CapacityRequirements": {"Spot": {}}}, "spot", id="spot"),
        pytest.param({"TrainingPlanArn": "arn"}, "training plan", id="a training plan"),
    ],
)
def test_a_price_that_is_not_the_list_s_is_noted(properties: dict[str, Any], note: str) -> None:
    found = bill("AWS::SageMaker::Cluster", group(InstanceType="ml.p5.48xlarge", **properties))

    assert note in found.lines[0].note


def test_a_gateway_endpoint_is_free() -> None:
    assert bill("AWS::EC2::VPCEndpoint", {"VpcEndpointType": "Gateway"}).lines == ()


def test_what_costs_by_usage_is_named() -> None:
    found = bill("AWS::Lambda::Function")

    assert found.by_usage == (("AWS::Lambda::Function", "requests and run time", 1),)


def test_metrics_that_no_template_holds_are_counted() -> None:
    found = bill("AWS::SQS::Queue", num_custom_metrics=7)

    assert [(line.item, line.quantity) for line in found.lines] == [("custom metric", 7)]


def test_every_price_of_ours_is_of_an_item_that_a_bill_can_hold() -> None:
    source = Path(bill_module.__file__).read_text(encoding="utf-8")

    unused = {item for item, _ in OUR_PRICES if f'"{item}"' not in source}

    assert unused == set()


def test_what_every_deployment_has_is_priced_but_for_nodes() -> None:
    """What the review calls `unknown` is yours to name: nodes alone."""
    priced = {item for item, _ in OUR_PRICES}

    assert {"alarm", "high-resolution alarm", "composite alarm", "dashboard", "custom metric"} <= priced


def test_nodes_that_karpenter_adds_are_named_by_their_groups_and_not_counted() -> None:
    groups = group(InstanceType="ml.p5.48xlarge", InstanceCount=0)

    found = bill("AWS::SageMaker::Cluster", groups | {"AutoScaling": {"Mode": "Enable"}})

    assert found.lines == ()
    assert found.by_usage == (("AWS::SageMaker::Cluster", "nodes that Karpenter adds to gpu", 1),)
    assert bill("AWS::SageMaker::Cluster", groups).by_usage == ()
