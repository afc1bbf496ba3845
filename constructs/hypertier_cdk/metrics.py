"""The exporter's series in CloudWatch, as alarms, dashboards and scaling read them."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cw

from hypertier.exporter.metrics import DIMENSION
from hypertier.exporter.metrics import NAMESPACE as NAMESPACE

# How often the exporter writes, and ElastiCache. Made once, since each one more is made in another process.
MINUTE = cdk.Duration.minutes(1)


def endpoint_metric(
    name: str, endpoint: str, *, statistic: str = "Average", label: str | None = None
) -> cw.Metric:
    """A series of one endpoint, such as `KvCacheUsageRatio`; one data point a minute."""
    return cw.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={DIMENSION: endpoint},
        statistic=statistic,
        period=MINUTE,
        label=label,
    )
