"""What CloudWatch makes of an alarm's data points, and what it then tells: pure, by a template's properties.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html and
.../alarms-and-missing-data.html (read 2026-12-02).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hypertier.errors import DeploymentError

ALARM, OK, UNKNOWN = "ALARM", "OK", "INSUFFICIENT_DATA"
SPARE_PERIODS = 2
"""CloudWatch looks at some periods more than it needs; it does not say how many, its example at two."""

_BREACHES: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": lambda value, threshold: value >= threshold,
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "LessThanOrEqualToThreshold": lambda value, threshold: value <= threshold,
    "LessThanThreshold": lambda value, threshold: value < threshold,
}


def period_seconds(alarm: Mapping[str, Any]) -> int:
    """The length of a period of the alarm's one metric.

    Raises:
        DeploymentError: it goes by something else than one metric.
    """
    if "MetricName" not in alarm:
        raise DeploymentError(
            f"the emulator evaluates alarms of one metric, not {alarm.get('AlarmName')}; `ring` lets it off"
        )
    return int(alarm["Period"])


def num_periods(alarm: Mapping[str, Any]) -> int:
    """How many periods CloudWatch looks at, those that it may fall back on among them."""
    return int(alarm["EvaluationPeriods"]) + SPARE_PERIODS


def query_of(alarm: Mapping[str, Any]) -> dict[str, Any]:
    """What `GetMetricData` is asked for the alarm's metric."""
    metric = {key: alarm[key] for key in ("Namespace", "MetricName", "Dimensions") if key in alarm}
    statistic = {"Metric": metric, "Period": period_seconds(alarm), "Stat": alarm["Statistic"]}
    return {"Id": "m1", "MetricStat": statistic}


def state_after(alarm: Mapping[str, Any], values: Sequence[float | None], before: str) -> str:
    """The alarm's state by the values of `num_periods`, the newest first, None where there is none.

    Periods without data are passed over where older ones have enough; else they count as the alarm says.
    """
    needed = int(alarm["EvaluationPeriods"])
    breaching = int(alarm.get("DatapointsToAlarm", needed))
    breaches, threshold = _BREACHES[alarm["ComparisonOperator"]], float(alarm["Threshold"])
    told = [breaches(value, threshold) for value in values if value is not None][:needed]
    num_missing, treated = needed - len(told), alarm.get("TreatMissingData", "missing")
    if treated in ("breaching", "notBreaching"):
        told += [treated == "breaching"] * num_missing
        num_missing = 0
    if told.count(True) >= breaching:
        return ALARM
    if told.count(False) > needed - breaching:
        return OK  # whatever those that are missing would be
    if treated == "ignore":
        return before
    return ALARM if any(told) else UNKNOWN


def lambda_event(alarm: Mapping[str, Any], arn: str, state: str, before: str, at: datetime) -> dict[str, Any]:
    """What a function gets that the alarm calls.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-actions.html (read 2026-12-02)
    """
    *_, region, account, _, name = arn.split(":")
    time = at.strftime("%Y-%m-%dT%H:%M:%S.000+0000")
    return {
        "source": "aws.cloudwatch",
        "alarmArn": arn,
        "accountId": account,
        "time": time,
        "region": region,
        "alarmData": {
            "alarmName": name,
            "state": {"value": state, "reason": _reason(alarm, state), "timestamp": time},
            "previousState": {"value": before, "timestamp": time},
            "configuration": {"description": alarm.get("AlarmDescription", "")},
        },
    }


def topic_message(
    alarm: Mapping[str, Any], arn: str, state: str, before: str, at: datetime
) -> dict[str, Any]:
    """What a topic is told."""
    *_, region, account, _, name = arn.split(":")
    return {
        "AlarmName": name,
        "AlarmDescription": alarm.get("AlarmDescription", ""),
        "AWSAccountId": account,
        "NewStateValue": state,
        "NewStateReason": _reason(alarm, state),
        "StateChangeTime": at.strftime("%Y-%m-%dT%H:%M:%S.000+0000"),
        "Region": region,
        "AlarmArn": arn,
        "OldStateValue": before,
    }


def last_period_end(now: datetime, period: int) -> datetime:
    """When the last period ended that is over; periods begin at whole multiples of their length."""
    return datetime.fromtimestamp(int(now.timestamp()) // period * period, UTC)


def _reason(alarm: Mapping[str, Any], state: str) -> str:
    compared = f"{alarm['ComparisonOperator']} {alarm['Threshold']}"
    return f"{alarm['MetricName']} {compared} for {alarm['EvaluationPeriods']} periods: {state}"
