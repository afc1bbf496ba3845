"""Autoscaling as the manifest asks for it: KEDA for its triggers, Kubernetes' own autoscaler for routers.

Triggers: https://keda.sh/docs/latest/scalers/aws-cloudwatch/ and
https://keda.sh/docs/latest/scalers/prometheus/ (read 2026-12-01). Defaults are those of the manifest's CRD.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import (
    AutoScalingSpec,
    CloudWatchTrigger,
    InferenceEndpointConfig,
    PrometheusTrigger,
)
from hypertier.spec.scaling import refuse_hook
from hypertier_cdk.charts.inputs import refuse
from hypertier_cdk.charts.names import Names
from hypertier_cdk.charts.pods import Object, metadata

MIN_REPLICAS, MAX_REPLICAS = 1, 5
POLLING_SECONDS = 30
COOLDOWN_SECONDS = 300
SCALE_DOWN_SECONDS, SCALE_UP_SECONDS = 300, 0
COLLECTION_SECONDS = 300
METRIC_TYPES = {"Average": "AverageValue", "Value": "Value"}
ROUTER_CPU_PERCENT = 70
ENGINE_PATH = "spec.autoScalingSpec"
ROUTER_PATH = "spec.intelligentRoutingSpec.autoScalingSpec"

Trigger = CloudWatchTrigger | PrometheusTrigger


def router_spec(endpoint: InferenceEndpointConfig) -> AutoScalingSpec | None:
    """How the routers scale, or None where their number is fixed."""
    routing = endpoint.spec.intelligent_routing_spec
    return routing.auto_scaling_spec if routing and routing.enabled else None


def engine_scaling(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, component: str
) -> list[Object]:
    """KEDA's objects for engines of a kind; nothing where the manifest has no `autoScalingSpec`.

    Raises:
        ConfigError: no signal to scale by, a half-written trigger, or a second owner of the replicas.
    """
    spec = endpoint.spec.auto_scaling_spec
    if spec is None:
        return []
    refuse_hook(
        deployment.scaling,
        component,
        f"{endpoint.name} has an autoScalingSpec, and two owners of the same replicas undo each other's work",
    )
    triggers = triggers_of(spec)
    if not triggers:
        raise refuse(
            endpoint,
            ENGINE_PATH,
            None,
            "a cloudWatchTrigger or prometheusTrigger: an engine's CPU says nothing about its load",
        )
    minimum, maximum = limits(endpoint, spec, ENGINE_PATH, 0)
    return keda_objects(deployment, endpoint, names, component, spec, triggers, minimum, maximum)


def router_scaling(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, at_least: int
) -> list[Object]:
    """What scales the routers: KEDA by the manifest's triggers, else their CPU; never below `at_least`.

    Raises:
        ConfigError: a half-written trigger, or none for routers whose CPU tells nothing.
    """
    spec = router_spec(endpoint)
    if spec is None:
        return []
    minimum, maximum = limits(endpoint, spec, ROUTER_PATH, at_least)
    triggers = triggers_of(spec)
    if triggers:
        return keda_objects(deployment, endpoint, names, "router", spec, triggers, minimum, maximum)
    if deployment.routing.busy_polling:
        raise refuse(
            endpoint,
            ROUTER_PATH,
            None,
            "a cloudWatchTrigger or prometheusTrigger: with routing.busyPolling routers always use all their "
            "CPUs, which says nothing about their load",
        )
    return [
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": metadata(names, "router"),
            "spec": {
                "scaleTargetRef": _target(names, "router"),
                "minReplicas": minimum,
                "maxReplicas": maximum,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": ROUTER_CPU_PERCENT},
                        },
                    }
                ],
                "behavior": _behavior(spec),
            },
        }
    ]


def triggers_of(spec: AutoScalingSpec) -> tuple[Trigger, ...]:
    """The triggers; a list wins over the single one of its kind."""
    cloud_watch = spec.cloud_watch_trigger_list or (
        (spec.cloud_watch_trigger,) if spec.cloud_watch_trigger else ()
    )
    prometheus = spec.prometheus_trigger_list or (
        (spec.prometheus_trigger,) if spec.prometheus_trigger else ()
    )
    return (*cloud_watch, *prometheus)


def limits(
    endpoint: InferenceEndpointConfig, spec: AutoScalingSpec, path: str, at_least: int
) -> tuple[int, int]:
    """The fewest and the most replicas.

    Raises:
        ConfigError: the most are fewer than the fewest, or none.
    """
    written = MIN_REPLICAS if spec.min_replica_count is None else spec.min_replica_count
    minimum = max(written, at_least)
    maximum = MAX_REPLICAS if spec.max_replica_count is None else spec.max_replica_count
    if maximum < max(minimum, 1):
        raise refuse(
            endpoint,
            f"{path}.maxReplicaCount",
            maximum,
            f"{max(minimum, 1)} or more: there are never fewer replicas than that",
        )
    return minimum, maximum


def keda_objects(
    deployment: Deployment,
    endpoint: InferenceEndpointConfig,
    names: Names,
    component: str,
    spec: AutoScalingSpec,
    triggers: Sequence[Trigger],
    minimum: int,
    maximum: int,
) -> list[Object]:
    """A ScaledObject, and the authentication by which KEDA's own role reads the metrics."""
    return [
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "TriggerAuthentication",
            "metadata": metadata(names, component),
            "spec": {"podIdentity": {"provider": "aws"}},
        },
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": metadata(names, component),
            "spec": {
                "scaleTargetRef": _target(names, component),
                "minReplicaCount": minimum,
                "maxReplicaCount": maximum,
                "pollingInterval": _or(spec.polling_interval, POLLING_SECONDS),
                "cooldownPeriod": _or(spec.cooldown_period, COOLDOWN_SECONDS),
                "initialCooldownPeriod": _or(spec.initial_cooldown_period, COOLDOWN_SECONDS),
                "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(spec)}},
                "triggers": [
                    _trigger(deployment, endpoint, names.of(component), trigger) for trigger in triggers
                ],
            },
        },
    ]


def _trigger(
    deployment: Deployment, endpoint: InferenceEndpointConfig, authentication: str, trigger: Trigger
) -> Object:
    if isinstance(trigger, CloudWatchTrigger):
        kind, values = "aws-cloudwatch", _cloud_watch(deployment, endpoint, trigger)
    else:
        kind, values = "prometheus", _prometheus(deployment, endpoint, trigger)
    result: Object = {
        "type": kind,
        "metadata": {name: _text(value) for name, value in values.items() if value is not None},
        "metricType": METRIC_TYPES[trigger.metric_type or "Average"],
        "useCachedMetrics": trigger.use_cached_metrics is not False,
        "authenticationRef": {"name": authentication},
    }
    if trigger.name:
        result["name"] = trigger.name
    return result


def _cloud_watch(
    deployment: Deployment, endpoint: InferenceEndpointConfig, trigger: CloudWatchTrigger
) -> dict[str, object]:
    _require(
        endpoint,
        "cloudWatchTrigger",
        {
            "namespace": trigger.namespace,
            "metricName": trigger.metric_name,
            "dimensions": trigger.dimensions,
            "targetValue": trigger.target_value,
        },
    )
    dimensions = trigger.dimensions or ()
    return {
        "namespace": trigger.namespace,
        "metricName": trigger.metric_name,
        "dimensionName": ";".join(dimension.name for dimension in dimensions),
        "dimensionValue": ";".join(dimension.value for dimension in dimensions),
        "metricStat": trigger.metric_stat or "Average",
        "metricStatPeriod": _or(trigger.metric_collection_period, COLLECTION_SECONDS),
        "metricCollectionTime": _or(trigger.metric_collection_start_time, COLLECTION_SECONDS),
        "targetMetricValue": trigger.target_value,
        "minMetricValue": _or(trigger.min_value, 0),
        "activationTargetMetricValue": trigger.activation_target_value,
        "awsRegion": deployment.region,
    }


def _prometheus(
    deployment: Deployment, endpoint: InferenceEndpointConfig, trigger: PrometheusTrigger
) -> dict[str, object]:
    _require(
        endpoint,
        "prometheusTrigger",
        {
            "serverAddress": trigger.server_address,
            "query": trigger.query,
            "targetValue": trigger.target_value,
        },
    )
    return {
        "serverAddress": trigger.server_address,
        "query": trigger.query,
        "threshold": trigger.target_value,
        "activationThreshold": trigger.activation_target_value,
        "namespace": trigger.namespace,
        "customHeaders": trigger.custom_headers,
        "awsRegion": deployment.region,
    }


def _require(endpoint: InferenceEndpointConfig, trigger: str, values: dict[str, object]) -> None:
    for name, value in values.items():
        if value in (None, "", ()):
            raise refuse(
                endpoint, f"{trigger}.{name}", value, f"a value: {', '.join(values)} make a trigger together"
            )


def _target(names: Names, component: str) -> Object:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": names.of(component)}


def _behavior(spec: AutoScalingSpec) -> Object:
    return {
        "scaleDown": {
            "stabilizationWindowSeconds": _or(spec.scale_down_stabilization_time, SCALE_DOWN_SECONDS)
        },
        "scaleUp": {"stabilizationWindowSeconds": _or(spec.scale_up_stabilization_time, SCALE_UP_SECONDS)},
    }


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _text(value: object) -> str:
    """KEDA's metadata are strings; whole numbers stay whole."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
