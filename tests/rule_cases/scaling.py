"""Rules of scaling, each broken once and kept once."""

from __future__ import annotations

from typing import Any

from fakes_manifests import REMOVED
from rule_cases.case import PROMETHEUS, SCALED, SELFHOSTED, Case
from rule_cases.disaggregation import PD

CLOUDWATCH = {
    "namespace": "AWS/SageMaker",
    "metricName": "Invocations",
    "dimensions": [{"name": "EndpointName", "value": "llama-8b"}],
    "metricCollectionPeriod": 60,
    "metricCollectionStartTime": 300,
    "targetValue": 10,
}
CW_SCALED = {"minReplicaCount": 1, "maxReplicaCount": 3, "cloudWatchTrigger": CLOUDWATCH}

DAY = {"name": "day", "cron": "cron(0 8 ? * MON-FRI *)", "minReplicas": 1}


def exported(*dimensions: str) -> dict[str, Any]:
    """A scaler by one of the exporter's series, under these dimensions."""
    named = [{"name": name, "value": "x"} for name in dimensions]
    trigger = {**CLOUDWATCH, "namespace": "Hypertier", "metricName": "QueuedRequests", "dimensions": named}
    return {**CW_SCALED, "cloudWatchTrigger": trigger}


CASES = [
    Case(
        "prometheus-address",
        {
            "spec.autoScalingSpec": {
                **SCALED,
                "prometheusTrigger": {**PROMETHEUS, "serverAddress": "http://prometheus:9090"},
            }
        },
        "spec.autoScalingSpec.prometheusTrigger.serverAddress",
        {"spec.autoScalingSpec": SCALED},
    ),
    Case(
        "cloudwatch-endpoint-name",
        {"spec.autoScalingSpec": CW_SCALED, "spec.endpointName": "mine"},
        "spec.autoScalingSpec.cloudWatchTrigger.dimensions[0].value",
        {"spec.autoScalingSpec": CW_SCALED, "spec.endpointName": "llama-8b"},
    ),
    Case(
        "cloudwatch-period",
        {
            "spec.autoScalingSpec": {
                **CW_SCALED,
                "cloudWatchTrigger": {**CLOUDWATCH, "metricCollectionPeriod": 45},
            }
        },
        "spec.autoScalingSpec.cloudWatchTrigger.metricCollectionPeriod",
        {"spec.autoScalingSpec": CW_SCALED},
    ),
    Case(
        "cloudwatch-resolution",
        {
            "spec.autoScalingSpec": {
                **CW_SCALED,
                "cloudWatchTrigger": {**CLOUDWATCH, "metricCollectionPeriod": 10},
            }
        },
        "spec.autoScalingSpec.cloudWatchTrigger.metricCollectionPeriod",
        {"spec.autoScalingSpec": CW_SCALED},
    ),
    Case(
        "hook-and-autoscaling",
        {"spec.autoScalingSpec": SCALED},
        "spec.autoScalingSpec",
        {"spec.replicas": 2},
        deployment={**SELFHOSTED, "scaling": {"schedules": [DAY]}},
    ),
    Case(
        "exporter-dimensions",
        {"spec.autoScalingSpec": exported("Endpoint", "Role")},
        "spec.autoScalingSpec.cloudWatchTrigger.dimensions",
        {"spec.autoScalingSpec": exported("Endpoint")},
        deployment=SELFHOSTED,
    ),
    Case(
        "exporter-dimensions",
        {"spec.pdSpec": {**PD, "autoScalingSpec": {"prefillAutoScaling": exported("Endpoint")}}},
        "spec.pdSpec.autoScalingSpec.prefillAutoScaling.cloudWatchTrigger.dimensions",
        {"spec.pdSpec": {**PD, "autoScalingSpec": {"prefillAutoScaling": exported("Role", "Endpoint")}}},
        deployment=SELFHOSTED,
        name="of a role",
    ),
    Case(
        "hook-and-autoscaling",
        {"spec.autoScalingSpec": SCALED},
        "spec.autoScalingSpec",
        {"spec.replicas": 2},
        deployment={**SELFHOSTED, "scaling": {"max": 2}},
        name="bounds",
    ),
    Case(
        "replicas-and-autoscaling",
        {"spec.autoScalingSpec": SCALED},
        "spec.replicas",
        {"spec.autoScalingSpec": SCALED, "spec.replicas": REMOVED},
    ),
    Case("initial-replica-count", {"spec.InitialReplicaCount": 2}, "spec.InitialReplicaCount"),
    Case(
        "trigger-and-list",
        {"spec.autoScalingSpec": {**SCALED, "prometheusTriggerList": [PROMETHEUS]}},
        "spec.autoScalingSpec.prometheusTrigger",
        {"spec.autoScalingSpec": SCALED},
    ),
    Case(
        "no-trigger",
        {"spec.autoScalingSpec": {"minReplicaCount": 1}},
        "spec.autoScalingSpec",
        {"spec.autoScalingSpec": SCALED},
    ),
    Case(
        "replica-bounds",
        {"spec.autoScalingSpec": {**SCALED, "minReplicaCount": 4}},
        "spec.autoScalingSpec.maxReplicaCount",
        {"spec.autoScalingSpec": SCALED},
    ),
    Case(
        "two-scalers",
        {"spec.autoScalingSpec": SCALED},
        "spec.autoScalingSpec",
        siblings=(
            {
                "kind": "ScaledObject",
                "metadata": {"name": "mine", "namespace": "inference"},
                "spec": {"scaleTargetRef": {"name": "llama-8b"}},
            },
        ),
    ),
    Case(
        "wake-from-zero",
        {"spec.autoScalingSpec": {**SCALED, "minReplicaCount": 0}},
        "spec.autoScalingSpec.prometheusTrigger.query",
        {"spec.autoScalingSpec": {**CW_SCALED, "minReplicaCount": 0}},
    ),
]
