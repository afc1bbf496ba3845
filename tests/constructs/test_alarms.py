"""Each part that stops working rings, and what the alarms watch is what the exporter writes."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from fakes_scaling import gpu_cluster, scalings_of_roles
from fakes_templates import new_stack, properties, template_of

from hypertier.errors import ConfigError
from hypertier.exporter.metrics import ALL_SERIES, VERIFY_SERIES
from hypertier_cdk import EndpointAlarms
from hypertier_cdk.metrics import ROLES


def template(**options: Any) -> dict[str, Any]:
    stack = new_stack()
    alarms = EndpointAlarms(stack, "Alarms", endpoint="llama", **{"replicas": 2, "cached": True} | options)
    alarms.notify(actions.SnsAction(sns.Topic(stack, "Topic")))
    return template_of(stack)


def by_metric(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {alarm["MetricName"]: alarm for alarm in properties(found, "AWS::CloudWatch::Alarm")}


@pytest.fixture(scope="module")
def alarms() -> dict[str, dict[str, Any]]:
    return by_metric(template())


def test_every_series_that_is_watched_is_written_by_the_exporter(alarms: dict[str, dict[str, Any]]) -> None:
    written = {series.name for series in ALL_SERIES}

    assert set(alarms) <= written


def test_every_alarm_watches_its_endpoint_alone(alarms: dict[str, dict[str, Any]]) -> None:
    assert all(
        alarm["Namespace"] == "Hypertier" and alarm["Dimensions"] == [{"Name": "Endpoint", "Value": "llama"}]
        for alarm in alarms.values()
    )


def test_a_silent_exporter_rings_and_only_that_alarm_rings_for_it() -> None:
    breaching = [
        alarm
        for alarm in properties(template(), "AWS::CloudWatch::Alarm")
        if alarm["TreatMissingData"] == "breaching"
    ]

    assert len(breaching) == 1
    assert breaching[0]["Statistic"] == "SampleCount"


@pytest.mark.parametrize(
    ("metric", "comparison", "threshold"),
    [
        pytest.param("ReplicasScraped", "LessThanThreshold", 2, id="too few replicas answer"),
        pytest.param("ReplicasFailed", "GreaterThanThreshold", 0, id="a replica cannot be read"),
        pytest.param("MetricsMissing", "GreaterThanThreshold", 0, id="a metric is not there"),
        pytest.param("QueuedRequests", "GreaterThanThreshold", 0, id="requests wait"),
        pytest.param("ExternalHitRatio", "LessThanThreshold", 0.001, id="the cache finds nothing"),
    ],
)
def test_what_stops_working_rings(
    metric: str, comparison: str, threshold: float, alarms: dict[str, dict[str, Any]]
) -> None:
    alarm = alarms[metric]

    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == (comparison, threshold)
    assert "llama: " in alarm["AlarmDescription"]


def test_an_endpoint_without_a_cache_is_not_told_that_its_cache_is_useless() -> None:
    assert "ExternalHitRatio" not in by_metric(template(cached=False))


def test_an_endpoint_that_may_have_no_replica_misses_none() -> None:
    assert "ReplicasMissing" not in str(template(replicas=0))


@pytest.fixture(scope="module")
def by_role() -> dict[tuple[str, str], dict[str, Any]]:
    """The alarms of an endpoint whose engines prefill or decode, by role and series."""
    found = properties(template(replicas={"decode": 5, "prefill": 2}), "AWS::CloudWatch::Alarm")
    named = [({entry["Name"]: entry["Value"] for entry in alarm["Dimensions"]}, alarm) for alarm in found]
    return {
        (dimensions["Role"], f"{alarm['MetricName']} {alarm['Statistic']}"): alarm
        for dimensions, alarm in named
    }


def test_each_role_is_watched_apart_and_nothing_over_both(
    by_role: dict[tuple[str, str], dict[str, Any]],
) -> None:
    assert by_role["prefill", "ReplicasScraped Minimum"]["Threshold"] == 2
    assert by_role["decode", "ReplicasScraped Minimum"]["Threshold"] == 5
    assert all(
        alarm["AlarmDescription"].startswith(f"llama {role}: ")
        for (role, watched), alarm in by_role.items()
        if "SampleCount" not in watched
    )


def test_engines_that_prefill_ring_for_their_queue_and_those_that_decode_for_their_cache(
    by_role: dict[tuple[str, str], dict[str, Any]],
) -> None:
    assert ("prefill", "QueuedRequests Minimum") in by_role
    assert ("decode", "QueuedRequests Minimum") not in by_role, "vLLM counts what KV cache is on its way for"
    assert by_role["decode", "KvCacheUsageRatio Minimum"]["ComparisonOperator"] == "GreaterThanThreshold"
    assert ("prefill", "KvCacheUsageRatio Minimum") not in by_role


def test_one_exporter_of_two_roles_is_silent_once(by_role: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert [role for role, watched in by_role if watched == "ReplicasScraped SampleCount"] == ["decode"]


@pytest.mark.parametrize("replicas", [{"prefill": 2}, {}, {"prefill": 1, "decode": 1, "both": 1}])
def test_replicas_of_half_the_roles_are_refused(replicas: dict[str, int]) -> None:
    with pytest.raises(
        ConfigError, match=r"replicas is .*; expected a number, or one for each of prefill and"
    ):
        template(replicas=replicas)


def test_every_alarm_tells_of_its_end_too() -> None:
    for alarm in properties(template(), "AWS::CloudWatch::Alarm"):
        assert alarm["AlarmActions"] == alarm["OKActions"]
        assert len(alarm["AlarmActions"]) == 1


def test_verifications_that_fail_ring_and_so_do_those_that_are_missing() -> None:
    found = {
        alarm["Statistic"]: alarm
        for alarm in properties(template(verify_minutes=5), "AWS::CloudWatch::Alarm")
        if alarm["MetricName"] in {series.name for series in VERIFY_SERIES}
    }

    silent, failing = found["SampleCount"], found["Maximum"]
    assert (silent["TreatMissingData"], silent["Threshold"]) == ("breaching", 1)
    assert (silent["EvaluationPeriods"], silent["DatapointsToAlarm"]) == (15, 15)
    assert (failing["ComparisonOperator"], failing["Threshold"]) == ("GreaterThanThreshold", 0)
    assert (failing["EvaluationPeriods"], failing["DatapointsToAlarm"]) == (15, 2)
    assert failing["TreatMissingData"] == "notBreaching"


def test_nobody_misses_verifications_that_nobody_asked_for() -> None:
    assert "Verify" not in str(template())


@pytest.mark.parametrize("minutes", [0, 481])
def test_verifications_that_no_alarm_can_watch_are_refused(minutes: int) -> None:
    with pytest.raises(ConfigError, match=f"verify_minutes is {minutes}; expected 1 to 480"):
        template(verify_minutes=minutes)


def test_captures_that_are_lost_ring_where_there_are_some() -> None:
    alarm = by_metric(template(captured=True))["CapturesLost"]

    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanThreshold", 0)
    assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (5, 1)
    assert "CapturesLost" not in by_metric(template())


def test_steps_that_took_any_replica_ring_once_for_all_roles_where_they_come_again() -> None:
    stack = new_stack("Blind")
    scalings = scalings_of_roles(stack, gpu_cluster(stack))
    EndpointAlarms(
        stack, "Alarms", endpoint="llama", replicas=dict.fromkeys(ROLES, 1), cached=True, scalings=scalings
    )
    alarms = properties(template_of(stack), "AWS::CloudWatch::Alarm")

    (alarm,) = [alarm for alarm in alarms if alarm.get("MetricName") == "BlindSteps"]

    assert (alarm["Namespace"], alarm["Dimensions"]) == (
        "Hypertier",
        [{"Name": "Endpoint", "Value": "llama"}],
    )
    assert (alarm["Statistic"], alarm["ComparisonOperator"], alarm["Threshold"]) == (
        "Sum",
        "GreaterThanThreshold",
        0,
    )
    assert alarm["Period"] * alarm["EvaluationPeriods"] == 24 * 3600
    assert (alarm["Period"], alarm["DatapointsToAlarm"]) == (3600, 2)
    assert alarm["TreatMissingData"] == "notBreaching"


def test_an_alarm_s_period_is_the_exporter_s() -> None:
    assert {alarm["Period"] for alarm in properties(template(), "AWS::CloudWatch::Alarm")} == {
        cdk.Duration.minutes(1).to_seconds()
    }
