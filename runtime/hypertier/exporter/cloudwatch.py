"""Data points into CloudWatch, by boto3."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from hypertier.errors import MissingPackageError, PublishError
from hypertier.exporter.metrics import DIMENSION, REPLICA_DIMENSION, ROLE_DIMENSION
from hypertier.exporter.series import DataPoint

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
except ModuleNotFoundError as error:
    raise MissingPackageError("hypertier exporter", "boto3", "exporter") from error

MAX_METRICS = 1000
"""Metrics that one PutMetricData request may carry.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html (read 2026-12-01)
"""


class CloudWatch:
    """Writes an endpoint's data points to one CloudWatch namespace in one region.

    Credentials and the service's address come to boto3 from the pod, as everywhere.
    """

    def __init__(self, endpoint: str, namespace: str, region: str) -> None:
        self._endpoint = endpoint
        self._namespace = namespace
        config = Config(
            connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"}
        )
        self._client = boto3.client("cloudwatch", region_name=region, config=config)

    def publish(self, data: Sequence[DataPoint], at: datetime) -> None:
        """Write `data`, all of the moment `at`, in as many requests as it takes.

        Raises:
            PublishError: CloudWatch did not take all of it; says why.
        """
        metrics = [self._metric(point, at) for point in data]
        try:
            for start in range(0, len(metrics), MAX_METRICS):
                self._client.put_metric_data(
                    Namespace=self._namespace, MetricData=metrics[start : start + MAX_METRICS]
                )
        except (BotoCoreError, ClientError) as error:
            raise PublishError(f"CloudWatch did not take {len(metrics)} data points: {error}") from error

    def _metric(self, point: DataPoint, at: datetime) -> dict[str, Any]:
        dimensions = {DIMENSION: self._endpoint}
        if point.role is not None:
            dimensions[ROLE_DIMENSION] = point.role
        if point.replica is not None:
            dimensions[REPLICA_DIMENSION] = point.replica
        metric: dict[str, Any] = {
            "MetricName": point.series.name,
            "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
            "Timestamp": at,
            "Unit": point.series.unit,
        }
        if point.series.resolution_seconds < 60:
            metric["StorageResolution"] = point.series.resolution_seconds
        if len(point.values) == 1:
            metric["Value"] = point.values[0]
        else:
            metric["Values"] = list(point.values)
        return metric
