from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from fakes_exporter import recorded
from fakes_moto import REGION, aws_environment, moto_server

from hypertier.errors import PublishError
from hypertier.exporter.cloudwatch import CloudWatch
from hypertier.exporter.metrics import (
    DIMENSION,
    KV_CACHE_USAGE_RATIO,
    PREFILL,
    QUEUED_REQUESTS,
    ROLE_DIMENSION,
    SERIES,
    WARM_TOKENS,
)
from hypertier.exporter.scrape import parse_metrics
from hypertier.exporter.series import DataPoint, endpoint_data

NOW = datetime.now(UTC).replace(microsecond=0)
DIMENSIONS = [{"Name": DIMENSION, "Value": "contracts"}]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """boto3's CloudWatch, at an empty moto that the environment names to everybody."""
    with moto_server() as url:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        yield boto3.client("cloudwatch", region_name=REGION)


def statistics(client: Any, series: str) -> dict[str, Any]:
    points = client.get_metric_statistics(
        Namespace="Hypertier",
        MetricName=series,
        Dimensions=DIMENSIONS,
        StartTime=NOW - timedelta(minutes=1),
        EndTime=NOW + timedelta(minutes=1),
        Period=60,
        Statistics=["Average", "Maximum", "SampleCount"],
    )["Datapoints"]
    assert len(points) == 1
    found: dict[str, Any] = points[0]
    return found


def test_every_series_of_a_busy_endpoint_arrives_under_its_name(client: Any) -> None:
    before, now = parse_metrics(recorded("busy")), parse_metrics(recorded("busier"))
    data = endpoint_data({"a": before}, {"a": now}, num_failed=0, ignore=frozenset())

    CloudWatch("contracts", "Hypertier", REGION).publish(data, NOW)

    metrics = client.list_metrics(Namespace="Hypertier")["Metrics"]
    assert {metric["MetricName"] for metric in metrics} == {series.name for series in SERIES}
    assert all(metric["Dimensions"] == DIMENSIONS for metric in metrics)
    assert statistics(client, "ExternalHitRatio")["Average"] == pytest.approx(896 / 1984)


def test_average_and_maximum_go_over_the_replicas(client: Any) -> None:
    data = [DataPoint(KV_CACHE_USAGE_RATIO, (0.1, 0.9)), DataPoint(QUEUED_REQUESTS, (5.0,))]

    CloudWatch("contracts", "Hypertier", REGION).publish(data, NOW)

    point = statistics(client, "KvCacheUsageRatio")
    assert (point["Average"], point["Maximum"]) == (pytest.approx(0.5), pytest.approx(0.9))
    assert statistics(client, "QueuedRequests")["Unit"] == "Count"


def test_a_role_is_a_dimension_more(client: Any) -> None:
    data = [DataPoint(QUEUED_REQUESTS, (5.0,)), DataPoint(QUEUED_REQUESTS, (7.0,), PREFILL)]

    CloudWatch("contracts", "Hypertier", REGION).publish(data, NOW)

    metrics = client.list_metrics(Namespace="Hypertier", MetricName="QueuedRequests")["Metrics"]
    found = sorted((metric["Dimensions"] for metric in metrics), key=len)
    assert found == [DIMENSIONS, [*DIMENSIONS, {"Name": ROLE_DIMENSION, "Value": PREFILL}]]


def test_a_replica_s_series_bears_its_address_alone(client: Any) -> None:
    data = [DataPoint(WARM_TOKENS, (5.0,), replica=ip) for ip in ("10.0.0.1", "10.0.0.2")]

    CloudWatch("contracts", "Hypertier", REGION).publish(data, NOW)

    metrics = client.list_metrics(Namespace="Hypertier", MetricName="WarmTokens")["Metrics"]
    found = [{entry["Name"]: entry["Value"] for entry in metric["Dimensions"]} for metric in metrics]
    assert sorted(found, key=str) == [
        {"Endpoint": "contracts", "Replica": "10.0.0.1"},
        {"Endpoint": "contracts", "Replica": "10.0.0.2"},
    ]


def test_what_cannot_be_written_says_why(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    with pytest.raises(PublishError, match="did not take 1 data points: Could not connect"):
        CloudWatch("contracts", "Hypertier", REGION).publish([DataPoint(QUEUED_REQUESTS, (5.0,))], NOW)
