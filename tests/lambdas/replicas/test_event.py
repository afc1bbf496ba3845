from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hypertier_lambdas.replicas.errors import EventError
from hypertier_lambdas.replicas.event import AlarmEvent, parse_event

EVENTS = Path(__file__).parents[2] / "events"
AT = datetime(2026, 11, 30, 12, 36, 15, 490_000, tzinfo=UTC)


def load(name: str) -> Any:
    return json.loads((EVENTS / name).read_text(encoding="utf-8"))


def test_an_alarms_own_invocation_names_alarm_state_and_time() -> None:
    event = parse_event(load("cloudwatch-alarm-high.json"))

    assert event == AlarmEvent("contracts-l1-high", "ALARM", AT, event.reason, "OK")
    assert event.reason.startswith("Threshold Crossed: 3 out of the last 3 datapoints")


def test_the_same_alarm_through_sns_is_the_same_transition() -> None:
    direct = parse_event(load("cloudwatch-alarm-high.json"))

    wrapped = parse_event(load("cloudwatch-alarm-high-sns.json"))

    assert (wrapped.alarm_name, wrapped.state, wrapped.transitioned_at, wrapped.previous_state) == (
        direct.alarm_name,
        direct.state,
        direct.transitioned_at,
        direct.previous_state,
    )


def test_an_alarms_invocation_wrapped_by_sns_is_read_too() -> None:
    direct = load("cloudwatch-alarm-high.json")

    wrapped = parse_event({"Records": [{"Sns": {"Message": json.dumps(direct)}}]})

    assert wrapped == parse_event(direct)


def alarm(**state: Any) -> dict[str, Any]:
    return {"alarmData": {"alarmName": "a", "state": {"value": "ALARM", "timestamp": AT.isoformat()} | state}}


@pytest.mark.parametrize(
    ("event", "named"),
    [
        pytest.param("text", "the event", id="no object"),
        pytest.param({"detail": {}}, "detail", id="another service's event"),
        pytest.param({"alarmData": {"state": {}}}, "alarmData.alarmName", id="no name"),
        pytest.param({"alarmData": {"alarmName": "a"}}, "alarmData.state", id="no state"),
        pytest.param(alarm(value="RED"), "alarmData.state.value", id="a state that is none"),
        pytest.param(alarm(timestamp="soon"), "alarmData.state.timestamp", id="a time that is none"),
        pytest.param(alarm(timestamp="2026-11-30T12:36:15"), "alarmData.state.timestamp", id="no zone"),
        pytest.param({"Records": []}, "Records", id="no record"),
        pytest.param({"Records": [{"Sns": {"Message": "hello"}}]}, "Records[0].Sns.Message", id="no JSON"),
        pytest.param({"Records": [{"s3": {}}]}, "Records[0].Sns", id="no SNS record"),
    ],
)
def test_an_event_that_is_no_alarms_is_refused_by_the_name_of_its_field(event: Any, named: str) -> None:
    with pytest.raises(EventError) as refusal:
        parse_event(event)

    assert named in str(refusal.value)
