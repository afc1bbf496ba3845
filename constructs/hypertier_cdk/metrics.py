"""The exporter's series in CloudWatch, as alarms, dashboards and scaling read them."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cw

from hypertier.exporter.metrics import DECODE, DIMENSION, PREFILL, ROLE_DIMENSION
from hypertier.exporter.metrics import NAMESPACE as NAMESPACE

ROLES = (PREFILL, DECODE)
# How often the exporter writes, and ElastiCache. Made once, since each one more is made in another process.
MINUTE = cdk.Duration.minutes(1)


def endpoint_metric(
    name: str,
    endpoint: str,
    *,
    role: str | None = None,
    statistic: str = "Average",
    label: str | None = None,
) -> cw.Metric:
    """A series of one endpoint, or of its engines of one role, such as `KvCacheUsageRatio`; once a minute."""
    return cw.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map=dimensions(endpoint, role),
        statistic=statistic,
        period=MINUTE,
        label=label,
    )


def dimensions(endpoint: str, role: str | None) -> dict[str, str]:
    """What a series of an endpoint, or of its engines of one role, is known by."""
    return {DIMENSION: endpoint} | ({} if role is None else {ROLE_DIMENSION: role})
