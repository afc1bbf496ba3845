"""Autoscaling: what the manifest says, in KEDA's words; one owner for one set of replicas."""

from __future__ import annotations

from typing import Any

import pytest
from fakes_charts import deployment
from kubernetes_gate import findings

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment, Scaling
from hypertier.spec.routing import Routing
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.objects import endpoint_objects, namespace_objects

CLOUD_WATCH = {
    "name": "queue",
    "namespace": "Hypertier",
    "metricName": "QueuedRequests",
    "dimensions": [{"name": "Endpoint", "value": "llama-70b"}, {"name": "Stage", "value": "prod"}],
    "metricCollectionPeriod": 60,
    "targetValue": 10.0,
    "minValue": 0.5,
}
PROMETHEUS = {
    "serverAddress": "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1",
    "query": "sum(vllm:num_requests_waiting)",
    "targetValue": 2.5,
    "metricType": "Value",
    "useCachedMetrics": False,
}


def scaled(
    spec: dict[str, Any] | None = None, router: dict[str, Any] | None = None, **changes: Any
) -> Deployment:
    return deployment(
        {"spec.autoScalingSpec": spec, "spec.intelligentRoutingSpec.autoScalingSpec": router},
        scaling=Scaling(),
        **changes,
    )


def objects_of(wanted: Deployment) -> list[dict[str, Any]]:
    return endpoint_objects(wanted, wanted.endpoints[0], ChartInputs())


def the(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (entry for entry in objects if entry["kind"] == kind)
    return found


def test_a_cloudwatch_trigger_is_written_in_keda_s_words() -> None:
    scaler = the("ScaledObject", objects_of(scaled({"cloudWatchTrigger": CLOUD_WATCH})))

    assert scaler["spec"]["triggers"] == [
        {
            "type": "aws-cloudwatch",
            "name": "queue",
            "metricType": "AverageValue",
            "useCachedMetrics": True,
            "authenticationRef": {"name": "llama-70b-engine"},
            "metadata": {
                "namespace": "Hypertier",
                "metricName": "QueuedRequests",
                "dimensionName": "Endpoint;Stage",
                "dimensionValue": "llama-70b;prod",
                "metricStat": "Average",
                "metricStatPeriod": "60",
                "metricCollectionTime": "300",
                "targetMetricValue": "10",
                "minMetricValue": "0.5",
                "awsRegion": "us-west-2",
            },
        }
    ]


def test_a_prometheus_trigger_is_written_in_keda_s_words() -> None:
    scaler = the("ScaledObject", objects_of(scaled({"prometheusTrigger": PROMETHEUS})))

    (trigger,) = scaler["spec"]["triggers"]
    assert (trigger["type"], trigger["metricType"], trigger["useCachedMetrics"]) == (
        "prometheus",
        "Value",
        False,
    )
    assert trigger["metadata"] == {
        "serverAddress": PROMETHEUS["serverAddress"],
        "query": PROMETHEUS["query"],
        "threshold": "2.5",
        "awsRegion": "us-west-2",
    }


def test_what_is_not_written_has_the_manifest_s_own_defaults() -> None:
    spec = the("ScaledObject", objects_of(scaled({"cloudWatchTrigger": CLOUD_WATCH})))["spec"]

    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"], spec["pollingInterval"]) == (1, 5, 30)
    assert (spec["cooldownPeriod"], spec["initialCooldownPeriod"]) == (300, 300)
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 300
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0


def test_zeros_are_values() -> None:
    written = {
        "cloudWatchTrigger": CLOUD_WATCH,
        "minReplicaCount": 0,
        "cooldownPeriod": 0,
        "scaleDownStabilizationTime": 0,
    }

    spec = the("ScaledObject", objects_of(scaled(written)))["spec"]

    assert (spec["minReplicaCount"], spec["cooldownPeriod"]) == (0, 0)


def test_a_list_of_triggers_wins_over_the_single_one() -> None:
    other = {**CLOUD_WATCH, "name": "other"}

    scaler = the(
        "ScaledObject",
        objects_of(
            scaled(
                {
                    "cloudWatchTrigger": CLOUD_WATCH,
                    "cloudWatchTriggerList": [other],
                    "prometheusTriggerList": [PROMETHEUS],
                }
            )
        ),
    )

    assert [trigger.get("name") for trigger in scaler["spec"]["triggers"]] == ["other", None]


def test_routers_without_a_trigger_scale_by_cpu_and_are_never_one() -> None:
    scaler = the(
        "HorizontalPodAutoscaler", objects_of(scaled(router={"minReplicaCount": 1, "maxReplicaCount": 9}))
    )

    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (2, 9)
    assert scaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70


def test_routers_whose_cpu_is_always_used_do_not_scale_by_it() -> None:
    busy = Routing(busy_polling=True)
    by_cpu = scaled(router={"maxReplicaCount": 9}, routing=busy)
    by_trigger = scaled(router={"cloudWatchTrigger": CLOUD_WATCH, "maxReplicaCount": 9}, routing=busy)

    with pytest.raises(ConfigError, match=r"autoScalingSpec.*routing\.busyPolling"):
        objects_of(by_cpu)
    assert the("ScaledObject", objects_of(by_trigger))


SCALED = {
    "engines": lambda: scaled({"cloudWatchTrigger": CLOUD_WATCH}),
    "routers by CPU": lambda: scaled(router={"maxReplicaCount": 4}),
    "both by triggers": lambda: scaled(
        {"prometheusTrigger": PROMETHEUS}, {"cloudWatchTrigger": CLOUD_WATCH, "maxReplicaCount": 4}
    ),
}


@pytest.mark.parametrize("case", SCALED)
def test_what_scales_passes_the_gate_and_has_one_owner(case: str) -> None:
    wanted = SCALED[case]()

    objects = [*namespace_objects(wanted), *objects_of(wanted)]

    assert findings(objects, wanted.cluster.kubernetes_version) == []


def test_the_gate_sees_a_second_owner_of_replicas() -> None:
    wanted = scaled({"cloudWatchTrigger": CLOUD_WATCH})
    objects = [*namespace_objects(wanted), *objects_of(wanted)]
    engine = next(e for e in objects if e["kind"] == "Deployment" and "engine" in e["metadata"]["name"])

    engine["spec"]["replicas"] = 3

    assert [f for f in findings(objects, "1.35") if f.startswith("replicas_have_one_owner")]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no trigger": (
        {"maxReplicaCount": 3},
        r"autoScalingSpec is not set; expected a cloudWatchTrigger or",
    ),
    "the most below the fewest": (
        {"cloudWatchTrigger": CLOUD_WATCH, "minReplicaCount": 6},
        r"spec\.autoScalingSpec\.maxReplicaCount is 5; expected 6 or more",
    ),
    "none at most": (
        {"cloudWatchTrigger": CLOUD_WATCH, "minReplicaCount": 0, "maxReplicaCount": 0},
        r"maxReplicaCount is 0; expected 1 or more",
    ),
    "fewer than none": (
        {"cloudWatchTrigger": CLOUD_WATCH, "minReplicaCount": -1},
        r"minReplicaCount is -1; expected 0 or more",
    ),
    "a trigger without a target": (
        {"cloudWatchTrigger": {**CLOUD_WATCH, "targetValue": None}},
        r"cloudWatchTrigger\.targetValue is not set; expected a value",
    ),
    "a trigger without dimensions": (
        {"cloudWatchTrigger": {**CLOUD_WATCH, "dimensions": []}},
        r"cloudWatchTrigger\.dimensions is empty; expected a value",
    ),
    "a query without a server": (
        {"prometheusTrigger": {**PROMETHEUS, "serverAddress": ""}},
        r"prometheusTrigger\.serverAddress is empty; expected a value",
    ),
    "a metric type that is none": (
        {"prometheusTrigger": {**PROMETHEUS, "metricType": "Sum"}},
        r"metricType is 'Sum'; expected Value or Average",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_not_scale_is_refused(case: str) -> None:
    spec, message = REFUSED[case]

    with pytest.raises(ConfigError, match=message):
        objects_of(scaled(spec))


def test_the_replicas_hook_and_keda_together_are_refused() -> None:
    wanted = deployment(
        {"spec.autoScalingSpec": {"cloudWatchTrigger": CLOUD_WATCH}}, scaling=Scaling(min=2, max=7)
    )

    with pytest.raises(ConfigError, match=r"scaling\.max is 7; expected 2, which is scaling\.min"):
        objects_of(wanted)
