"""What an alarm or a schedule says when it invokes the function, as a typed value.

Two shapes of an alarm are read. An alarm whose action is the function itself sends `alarmData`; one that
goes through an SNS topic arrives as a record whose `Sns.Message` is JSON in the older spelling (`AlarmName`,
`NewStateValue`).
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-actions-Lambda.html
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html

A schedule of EventBridge Scheduler sends what it was given: its name, and the moment that it is for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .errors import EventError

ALARM_STATES = ("OK", "ALARM", "INSUFFICIENT_DATA")


@dataclass(frozen=True)
class AlarmEvent:
    """One transition of one alarm.

    `alarm_name` and `transitioned_at` together name the transition: the same pair again is a replay.
    """

    alarm_name: str
    state: str
    transitioned_at: datetime
    reason: str = ""
    previous_state: str = ""


@dataclass(frozen=True)
class ScheduleEvent:
    """One moment of one schedule, from which its bounds hold.

    Both together name it: the same pair again is a replay.
    """

    schedule: str
    scheduled_at: datetime


def parse_event(event: object) -> AlarmEvent | ScheduleEvent:
    """Return the transition, or the moment of a schedule, that `event` tells of.

    Raises:
        EventError: `event` has none of the shapes, or a field is missing or wrong.
    """
    fields = _mapping(event, "the event")
    if "Records" in fields:
        return _from_sns(fields["Records"])
    if "alarmData" in fields:
        return _from_alarm(_mapping(fields["alarmData"], "alarmData"))
    if "schedule" in fields:
        return ScheduleEvent(
            _text(fields, "schedule", "the event"), _time(fields, "scheduledAt", "the event")
        )
    raise EventError(
        f"the event has the keys {sorted(map(str, fields))}; expected alarmData (an alarm's Lambda action), "
        "Records (the same alarm through SNS) or schedule (a schedule's)"
    )


def _from_alarm(alarm: Mapping[str, Any]) -> AlarmEvent:
    state = _mapping(alarm.get("state"), "alarmData.state")
    previous = _mapping(alarm.get("previousState", {}), "alarmData.previousState")
    return AlarmEvent(
        alarm_name=_text(alarm, "alarmName", "alarmData"),
        state=_state(state, "value", "alarmData.state"),
        transitioned_at=_time(state, "timestamp", "alarmData.state"),
        reason=str(state.get("reason", "")),
        previous_state=str(previous.get("value", "")),
    )


def _from_sns(records: object) -> AlarmEvent:
    # SNS invokes a function with one record a message.
    # https://docs.aws.amazon.com/lambda/latest/dg/with-sns.html
    if not isinstance(records, list) or len(records) != 1:
        raise EventError(f"Records is {records!r:.200}; expected a list of one SNS record")
    sns = _mapping(_mapping(records[0], "Records[0]").get("Sns"), "Records[0].Sns")
    where = "Records[0].Sns.Message"
    try:
        message = json.loads(_text(sns, "Message", "Records[0].Sns"))
    except ValueError as error:
        raise EventError(f"{where} is no JSON ({error}); expected what a CloudWatch alarm sends") from None
    fields = _mapping(message, where)
    if "alarmData" in fields:
        return _from_alarm(_mapping(fields["alarmData"], "alarmData"))
    return AlarmEvent(
        alarm_name=_text(fields, "AlarmName", where),
        state=_state(fields, "NewStateValue", where),
        transitioned_at=_time(fields, "StateChangeTime", where),
        reason=str(fields.get("NewStateReason", "")),
        previous_state=str(fields.get("OldStateValue", "")),
    )


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise EventError(f"{where} is {value!r:.200}; expected an object")
    return value


def _text(fields: Mapping[str, Any], key: str, where: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise EventError(f"{where}.{key} is {value!r:.200}; expected a text")
    return value


def _state(fields: Mapping[str, Any], key: str, where: str) -> str:
    value = _text(fields, key, where)
    if value not in ALARM_STATES:
        raise EventError(f"{where}.{key} is {value!r:.200}; expected one of {', '.join(ALARM_STATES)}")
    return value


def _time(fields: Mapping[str, Any], key: str, where: str) -> datetime:
    text = _text(fields, key, where)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise EventError(
            f"{where}.{key} is {text!r:.200}; expected a time such as 2026-12-01T12:36:15.490+0000"
        )
    return time
