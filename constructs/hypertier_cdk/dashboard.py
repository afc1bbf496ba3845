"""The dashboard of an endpoint: is it up, does the cache help, does it need more replicas."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cw
from constructs import Construct

from hypertier_cdk.arguments import checked
from hypertier_cdk.cache_store import CacheStore
from hypertier_cdk.metrics import MINUTE, endpoint_metric
from hypertier_cdk.scaling import CacheUtilizationScaling

WIDTH = 24  # of a CloudWatch dashboard


class EndpointDashboard(Construct):
    """One CloudWatch dashboard for one endpoint: a row of alarms, then a row for each question.

    Attributes:
        dashboard: add widgets of your own to it.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: str,
        alarms: Sequence[cw.IAlarm] = (),
        store: CacheStore | None = None,
        scaling: CacheUtilizationScaling | None = None,
    ) -> None:
        super().__init__(scope, construct_id)

        def metric(name: str, statistic: str, label: str) -> cw.IMetric:
            return endpoint_metric(name, endpoint, statistic=statistic, label=label)

        rows: list[list[cw.IWidget]] = [
            [cw.TextWidget(markdown=f"# {endpoint}", width=WIDTH, height=1)],
        ]
        if alarms:
            rows.append([cw.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=WIDTH, height=3)])
        rows += [
            [
                _graph(
                    "Replicas that answer",
                    [
                        metric("ReplicasScraped", "Minimum", "answer"),
                        metric("ReplicasFailed", "Maximum", "cannot be read"),
                    ],
                ),
                _graph("Requests waiting", [metric("QueuedRequests", "Maximum", "all replicas")]),
                _graph(
                    "What should be measured and is not",
                    [
                        metric("MetricsMissing", "Maximum", "names that an engine lacks"),
                        metric("SeriesAbsent", "Maximum", "series without a value"),
                    ],
                ),
            ],
            [
                _graph(
                    "Tokens found in L1 or L2, of those looked up",
                    [metric("ExternalHitRatio", "Average", "hit ratio")],
                    ratio=True,
                ),
                _graph(
                    "Cache in use",
                    [
                        metric("KvCacheUsageRatio", "Average", "GPU, mean of replicas"),
                        metric("KvCacheUsageRatio", "Maximum", "GPU, fullest replica"),
                        metric("L1UsageRatio", "Maximum", "L1, pinned by transfers"),
                    ],
                    ratio=True,
                    marks=_thresholds(scaling),
                ),
            ],
        ]
        if store is not None:
            rows.append(_store_row(store))
        if scaling is not None:
            rows.append(
                [
                    _graph("Steps of the replicas", [scaling.function.metric_invocations(label="asked for")]),
                    _graph("Steps that failed", [scaling.metric_failures().with_(label="kept in the queue")]),
                ]
            )
        self.dashboard = cw.Dashboard(self, "Dashboard", widgets=rows, default_interval=cdk.Duration.hours(3))


def _store_row(store: CacheStore) -> list[cw.IWidget]:
    """L2 as ElastiCache sees it, over all its nodes.

    https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/CacheMetrics.HostLevel.html (of a node's host)
    https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/CacheMetrics.Redis.html (of its engine)
    """

    def metric(name: str, statistic: str, label: str) -> cw.IMetric:
        # Its nodes are named after the group, so a search finds them, however many there are.
        search = (
            f'SEARCH(\'{{AWS/ElastiCache,CacheClusterId,CacheNodeId}} MetricName="{name}" '
            f"{store.name}', '{statistic}', 60)"
        )
        aggregate = {"Sum": "SUM", "Maximum": "MAX"}[statistic]
        return cw.MathExpression(
            expression=f"{aggregate}({search})", label=label, period=MINUTE, using_metrics={}
        )

    return [
        _graph(
            "L2: memory in use, fullest node", [metric("DatabaseMemoryUsagePercentage", "Maximum", "percent")]
        ),
        _graph(
            "L2: bytes a minute",
            [
                metric("NetworkBytesOut", "Sum", "to engines"),
                metric("NetworkBytesIn", "Sum", "from engines"),
            ],
        ),
        _graph("L2: entries dropped to make room", [metric("Evictions", "Sum", "all nodes")]),
    ]


def _graph(
    title: str,
    metrics: Sequence[cw.IMetric],
    *,
    ratio: bool = False,
    marks: Sequence[cw.HorizontalAnnotation] = (),
) -> cw.GraphWidget:
    return cw.GraphWidget(
        title=title,
        left=list(metrics),
        left_y_axis=cw.YAxisProps(min=0, max=1 if ratio else None, show_units=False),
        left_annotations=list(marks),
        width=WIDTH // 3,
        height=6,
    )


def _thresholds(scaling: CacheUtilizationScaling | None) -> list[cw.HorizontalAnnotation]:
    """Where the scaling's alarms lie."""
    if scaling is None:
        return []
    return [
        cw.HorizontalAnnotation(value=scaling.high, label="one replica more", color=cw.Color.RED),
        cw.HorizontalAnnotation(value=scaling.low, label="one replica less", color=cw.Color.BLUE),
    ]
