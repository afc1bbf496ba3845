"""What CloudWatch makes of data points; the rows of its own page on missing data are cases here.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html (read 2026-12-02)
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch as cw
from fakes_assembly import assembly, function, let_call

from hypertier.errors import DeploymentError
from hypertier_cdk.testing import Emulator
from hypertier_cdk.testing.alarm_states import state_after
from hypertier_cdk.testing.permissions import ALARMS

ALARM, OK, UNKNOWN = "ALARM", "OK", "INSUFFICIENT_DATA"
BEFORE = "as before"
THREE = {"EvaluationPeriods": 3, "Threshold": 0.5, "ComparisonOperator": "GreaterThanOrEqualToThreshold"}
TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")


@pytest.mark.parametrize(
    ("oldest_first", "expected"),
    [
        pytest.param("0-X-X", (OK, OK, OK, OK), id="three are enough"),
        pytest.param("0----", (OK, OK, OK, OK), id="one that is good"),
        pytest.param("-----", (UNKNOWN, BEFORE, ALARM, OK), id="none"),
        pytest.param("0XX-X", (ALARM, ALARM, ALARM, ALARM), id="three that breach"),
        pytest.param("--X--", (ALARM, BEFORE, ALARM, OK), id="one that breaches"),
    ],
)
def test_what_is_missing_counts_as_the_alarm_says(oldest_first: str, expected: tuple[str, ...]) -> None:
    values = [{"0": 0.0, "X": 1.0, "-": None}[each] for each in reversed(oldest_first)]

    told = tuple(state_after(THREE | {"TreatMissingData": each}, values, BEFORE) for each in TREATMENTS)

    assert told == expected


def test_so_many_of_so_many_are_enough() -> None:
    assert state_after(THREE | {"DatapointsToAlarm": 2}, [1.0, 0.0, 1.0, 0.0, 0.0], BEFORE) == ALARM
    assert state_after(THREE | {"DatapointsToAlarm": 2}, [1.0, 0.0, 0.0, 1.0, 1.0], BEFORE) == OK


NOW = datetime(2026, 12, 2, 12, 0, 30, tzinfo=UTC)


def told_of(stack: cdk.Stack, code: Path, metric: cw.IMetric) -> None:
    """An alarm of two minutes that calls a function."""
    called = let_call(function(stack, code, environment={"MINE": "rung"}), ALARMS)
    alarm = cw.Alarm(stack, "Alarm", alarm_name="full", metric=metric, threshold=3, evaluation_periods=2)
    inner = alarm.node.default_child
    assert isinstance(inner, cw.CfnAlarm)
    inner.alarm_actions = [called.function_arn]


def metric_of(name: str) -> cw.Metric:
    return cw.Metric(namespace="Mine", metric_name=name, period=cdk.Duration.minutes(1), statistic="Maximum")


class Published:
    """A metric's values, by how many minutes ago the period began."""

    def __init__(self) -> None:
        self.values: dict[int, float] = {}
        self.asked: list[Mapping[str, Any]] = []

    def get_metric_data(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        end = asked["EndTime"]
        times = [end - timedelta(minutes=ago) for ago in self.values]
        return {"MetricDataResults": [{"Timestamps": times, "Values": list(self.values.values())}]}


def test_an_alarm_rings_when_its_state_changes_and_not_again(code: Path) -> None:
    emulator, published = Emulator(), Published()
    emulator.deploy(assembly(lambda stack: told_of(stack, code, metric_of("Full"))))
    told = []
    for values in ({1: 1.0, 2: 9.0}, {1: 9.0, 2: 9.0}, {1: 9.0, 2: 9.0}):
        published.values = values
        told.append(emulator.watch(published.get_metric_data, NOW))

    first, (answer,), last = told[0], told[1]["full"], told[2]

    data = answer["event"]["alarmData"]
    assert (first, last) == ({"full": []}, {})
    assert (data["state"]["value"], data["previousState"]["value"]) == (ALARM, OK)
    assert published.asked[0]["EndTime"] == NOW.replace(second=0)
    assert emulator.watch(published.get_metric_data, NOW, ["another"]) == {}


def test_an_alarm_that_goes_by_arithmetic_is_refused_and_not_passed_over(code: Path) -> None:
    emulator = Emulator()
    ratio = cw.MathExpression(expression="a / b", using_metrics={"a": metric_of("A"), "b": metric_of("B")})
    emulator.deploy(assembly(lambda stack: told_of(stack, code, ratio)))

    with pytest.raises(DeploymentError, match="of one metric, not full"):
        emulator.watch(Published().get_metric_data, NOW)
