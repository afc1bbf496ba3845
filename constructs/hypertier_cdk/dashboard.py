"""The dashboard of an endpoint: is it up, does the cache help, does it need more replicas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cw
from constructs import Construct

from hypertier.errors import ConfigError
from hypertier.exporter.metrics import (
    CAPTURES_LOST,
    KV_CACHE_USAGE_RATIO,
    L1_USAGE_RATIO,
    POOL_QUEUED_REQUESTS,
    QUEUED_REQUESTS,
    REPLICAS_SCRAPED,
    Series,
)
from hypertier_cdk.arguments import checked
from hypertier_cdk.cache_store import CacheStore
from hypertier_cdk.forms import ObjectName
from hypertier_cdk.metrics import NAMESPACE, ROLES, dimensions
from hypertier_cdk.plain import resource
from hypertier_cdk.scaling import BLIND_STEPS, QUEUE_EXPRESSION, CacheUtilizationScaling

WIDTH = 24  # of a CloudWatch dashboard
PERIOD_SECONDS = 60
RED, BLUE = "#d62728", "#1f77b4"

# A widget, a metric of it, or a line across it, as CloudWatch writes them.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
Widget = dict[str, Any]
Metric = list[Any]


class EndpointDashboard(Construct):
    """One CloudWatch dashboard for one endpoint: a row of alarms, then a row for each question.

    `verified` says that the endpoint is verified now and then, `captured` that routers capture requests,
    `queued` that requests queue in routers; each has a row, too. Where some engines prefill and others
    decode, `roles` are `("prefill", "decode")`, and each has such rows.

    `widgets` are more of them, below ours, as CloudWatch's dashboards have them: `type`, `properties`, and
    `width` and `height` for others than 8 and 6; or what `to_json()` of the CDK's own widgets returns.

    Attributes:
        resource: the `AWS::CloudWatch::Dashboard`.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ObjectName,
        alarms: Sequence[cw.IAlarm] = (),
        roles: Sequence[str] = (),
        store: CacheStore | None = None,
        scalings: Sequence[CacheUtilizationScaling] = (),
        verified: bool = False,
        captured: bool = False,
        queued: bool = False,
        widgets: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        rows: list[list[Widget]] = [[_text(f"# {endpoint}")]]
        if alarms:
            rows.append([_alarms([alarm.alarm_arn for alarm in alarms])])
        if roles and tuple(roles) != ROLES:
            raise ConfigError("roles", list(roles), f"{list(ROLES)}, or none where engines do both")
        by_role = {scaling.role: scaling for scaling in scalings}
        for role in roles:
            rows += [[_text(f"## {role}")], *_engine_rows(endpoint, role, by_role.get(role))]
        if not roles:
            rows += _engine_rows(endpoint, None, by_role.get(None))
        if verified:
            rows.append(_verify_row(endpoint))
        if queued:
            rows.append([_queues_graph(endpoint)])
        if captured:
            rows.append([_captures_graph(endpoint)])
        if store is not None:
            rows.append(_store_row(store.name))
        if scalings:
            rows.append(_scaling_row(endpoint, scalings))
        if any(scaling.sleeps for scaling in scalings):
            rows.append(_to_zero_row(endpoint))
        rows += [[dict(widget)] for widget in _checked(widgets)]
        body = {"start": "-PT3H", "widgets": list(_placed(rows, cdk.Stack.of(self).region))}
        self.resource = resource(
            self,
            "Dashboard",
            "AWS::CloudWatch::Dashboard",
            # One text: the CDK's widgets and metrics would be as many objects in another process. What users
            # give may hold such, or tokens of any kind.
            DashboardBody=cdk.Stack.of(self).to_json_string(body)
            if widgets
            else json.dumps(body, separators=(",", ":")),
        )


def _engine_rows(
    endpoint: str, role: str | None, scaling: CacheUtilizationScaling | None
) -> list[list[Widget]]:
    """The engines of a role; all of them where they are of one kind."""
    metric = partial(_metric, endpoint, role)
    return [
        [
            _graph(
                "Replicas that answer",
                [
                    metric("ReplicasScraped", "Minimum", "answer"),
                    metric("ReplicasFailed", "Maximum", "cannot be read"),
                ],
            ),
            _graph(
                "Requests waiting",
                [
                    metric("QueuedRequests", "Maximum", "all replicas"),
                    *_each_waiting(endpoint, role, scaling),
                ],
                marks=_thresholds(scaling, QUEUED_REQUESTS),
            ),
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
                marks=_thresholds(scaling, KV_CACHE_USAGE_RATIO, L1_USAGE_RATIO),
            ),
        ],
    ]


def _metric(endpoint: str, role: str | None, name: str, statistic: str, label: str) -> Metric:
    named = [word for dimension in dimensions(endpoint, role).items() for word in dimension]
    return [NAMESPACE, name, *named, {"label": label, "period": PERIOD_SECONDS, "stat": statistic}]


def _verify_row(endpoint: str) -> list[Widget]:
    """Four graphs in the place of three."""
    metric = partial(_metric, endpoint, None)
    graphs = [
        _graph(
            "Verification: checks",
            [
                metric("VerifyFailed", "Maximum", "failed"),
                metric("VerifyUntold", "Maximum", "could not be told"),
            ],
        ),
        _graph(
            "Verification: first token, seconds",
            [
                metric("VerifyTtft", "Maximum", "of a new prompt"),
                metric("VerifyCachedTtft", "Maximum", "of the same again"),
            ],
        ),
        _graph(
            "Verification: tokens from a cache",
            [metric("VerifyCachedRatio", "Minimum", "of the prompt sent again")],
            ratio=True,
        ),
        _graph("Verification: seconds in all", [metric("VerifySeconds", "Maximum", "a verification")]),
    ]
    return [{**graph, "width": WIDTH // len(graphs)} for graph in graphs]


def _queues_graph(endpoint: str) -> Widget:
    """Of each pool of models there is one value a minute."""
    metric = partial(_metric, endpoint, None, POOL_QUEUED_REQUESTS.name)
    lines = [metric("Sum", "all pools"), metric("Maximum", "the pool with the longest queue")]
    return _graph("Requests waiting in routers", lines)


def _captures_graph(endpoint: str) -> Widget:
    lost = _metric(endpoint, None, CAPTURES_LOST.name, "Sum", "routers kept nothing of")
    return _graph("Requests that were to be captured, lost a minute", [lost])


def _store_row(name: str) -> list[Widget]:
    """L2 as ElastiCache sees it, over all its nodes.

    https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/CacheMetrics.HostLevel.html (of a node's host)
    https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/CacheMetrics.Redis.html (of its engine)
    """

    def metric(metric_name: str, statistic: str, label: str) -> Metric:
        # Its nodes are named after the group, so a search finds them, however many there are.
        search = (
            f'SEARCH(\'{{AWS/ElastiCache,CacheClusterId,CacheNodeId}} MetricName="{metric_name}" '
            f"{name}', '{statistic}', {PERIOD_SECONDS})"
        )
        aggregate = {"Sum": "SUM", "Maximum": "MAX"}[statistic]
        return [{"expression": f"{aggregate}({search})", "label": label, "period": PERIOD_SECONDS}]

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


def _each_waiting(endpoint: str, role: str | None, scaling: CacheUtilizationScaling | None) -> list[Metric]:
    """What waits for each replica, where that is what scales."""
    if scaling is None or scaling.metric != QUEUED_REQUESTS.name:
        return []
    named = [word for dimension in dimensions(endpoint, role).items() for word in dimension]
    hidden = {"period": PERIOD_SECONDS, "stat": "Average", "visible": False}
    return [
        [NAMESPACE, QUEUED_REQUESTS.name, *named, {**hidden, "id": "queued"}],
        [NAMESPACE, REPLICAS_SCRAPED.name, *named, {**hidden, "id": "replicas"}],
        [{"expression": QUEUE_EXPRESSION, "label": "for each replica", "period": PERIOD_SECONDS}],
    ]


def _scaling_row(endpoint: str, scalings: Sequence[CacheUtilizationScaling]) -> list[Widget]:
    def label(scaling: CacheUtilizationScaling, said: str) -> str:
        return f"{scaling.role}: {said}" if scaling.role else said

    asked: list[Metric] = []
    kept: list[Metric] = []
    for scaling in scalings:
        function, queue = scaling.function.function_name, scaling.failures.queue_name
        sums = {"label": label(scaling, "asked for"), "stat": "Sum"}
        asked.append(["AWS/Lambda", "Invocations", "FunctionName", function, sums])
        most = {"label": label(scaling, "kept in the queue"), "period": PERIOD_SECONDS, "stat": "Maximum"}
        kept.append(["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", queue, most])
    blind = _metric(endpoint, None, BLIND_STEPS, "Sum", "nobody could tell which are worth least")
    return [
        _graph("Steps of the replicas", asked),
        _graph("Steps that failed", kept),
        _graph("Steps down that took any replica", [blind]),
    ]


def _to_zero_row(endpoint: str) -> list[Widget]:
    metric = partial(_metric, endpoint, None)
    return [
        _graph(
            "Requests that wait for a replica",
            [metric("HeldRequests", "Maximum", "held in routers, the most")],
        ),
        _graph(
            "Replicas that nobody asks",
            [metric("IdleReplicas", "Minimum", "all while nobody asks, else none")],
        ),
    ]


def _checked(widgets: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    for number, widget in enumerate(widgets):
        for key in ("type", "properties"):
            if key not in widget:
                raise ConfigError(
                    f"widgets.{number}.{key}", None, "both type and properties, as CloudWatch has them"
                )
        width = widget.get("width", 1)
        if not 1 <= width <= WIDTH:
            raise ConfigError(f"widgets.{number}.width", width, f"1 to {WIDTH}, the width of a dashboard")
    return widgets


def _placed(rows: Sequence[Sequence[Widget]], region: str) -> Iterator[Widget]:
    """The widgets with their places, each row below the one before."""
    y = 0
    for row in rows:
        x = 0
        sized = [{"width": WIDTH // 3, "height": 6, **widget} for widget in row]
        for widget in sized:
            if widget["type"] == "metric":
                widget["properties"] = {"region": region, **widget["properties"]}
            yield {**widget, "x": x, "y": y}
            x += widget["width"]
        y += max(widget["height"] for widget in sized)


def _text(markdown: str) -> Widget:
    return {"type": "text", "width": WIDTH, "height": 1, "properties": {"markdown": markdown}}


def _alarms(arns: Sequence[str]) -> Widget:
    properties = {"title": "Alarms", "alarms": list(arns)}
    return {"type": "alarm", "width": WIDTH, "height": 3, "properties": properties}


def _graph(
    title: str, metrics: Sequence[Metric], *, ratio: bool = False, marks: Sequence[Mapping[str, Any]] = ()
) -> Widget:
    properties: dict[str, Any] = {
        "view": "timeSeries",
        "title": title,
        "metrics": list(metrics),
        "yAxis": {"left": {"min": 0, **({"max": 1} if ratio else {}), "showUnits": False}},
    }
    if marks:
        properties["annotations"] = {"horizontal": list(marks)}
    return {"type": "metric", "properties": properties}


def _thresholds(scaling: CacheUtilizationScaling | None, *shown: Series) -> list[dict[str, Any]]:
    """Where the scaling's alarms lie, if they watch one of the series that are shown."""
    if scaling is None or scaling.metric not in [series.name for series in shown]:
        return []
    return [
        {"value": scaling.high, "label": "one replica more", "color": RED, "yAxis": "left"},
        {"value": scaling.low, "label": "one replica less", "color": BLUE, "yAxis": "left"},
    ]
