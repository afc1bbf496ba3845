"""What an alarm does as it changes its state: functions that it calls, and topics that it tells."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypertier.errors import ConfigError, DeploymentError
from hypertier_cdk.testing.alarm_states import (
    UNKNOWN,
    lambda_event,
    last_period_end,
    num_periods,
    period_seconds,
    query_of,
    state_after,
    topic_message,
)
from hypertier_cdk.testing.permissions import ALARMS, TOPICS, refuse_stranger
from hypertier_cdk.testing.providers import Made, Resource

GetMetricData = Callable[..., Mapping[str, Any]]
"""boto3's method of that name."""

# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudwatch-alarm.html
ACTIONS = {"ALARM": "AlarmActions", "OK": "OKActions", "INSUFFICIENT_DATA": "InsufficientDataActions"}


class Alarms:
    """The alarms among what exists. `messages` holds what they told each topic, by its ARN."""

    def __init__(
        self,
        existing: Callable[[str], Iterable[tuple[Resource, Made]]],
        invoke: Callable[[str, object], Any],
    ) -> None:
        self.messages: dict[str, list[str]] = {}
        self._existing = existing
        self._invoke = invoke
        self._states: dict[str, str] = {}

    def watch(
        self, get_metric_data: GetMetricData, now: datetime, names: Collection[str] | None
    ) -> dict[str, list[Any]]:
        """Evaluate the alarms of these names, or all, and let those ring whose state is another than before.

        Returns what functions return, by the name of each alarm that changed.

        Raises:
            DeploymentError: an alarm goes by more than one metric, or a function failed.
        """
        answers: dict[str, list[Any]] = {}
        for resource, made in list(self._existing("AWS::CloudWatch::Alarm")):
            if names is not None and made.ref not in names:
                continue
            alarm, before = resource.properties, self._states.get(made.ref, UNKNOWN)
            state = state_after(alarm, _values(alarm, get_metric_data, now), before)
            if state != before:
                told = alarm, str(made.attributes["Arn"]), state, before, now
                answers[made.ref] = self._change(made.ref, lambda_event(*told), topic_message(*told), state)
        return answers

    def ring(self, alarm_name: str, event: object, state: str) -> list[Any]:
        """Do what the alarm does in `state`, and return what the functions return.

        Raises:
            ConfigError: an alarm has no such state.
            DeploymentError: there is no such alarm, it does something else, or a function failed.
        """
        if state not in ACTIONS:
            raise ConfigError("state", state, " or ".join(ACTIONS))
        return self._change(alarm_name, event, event, state)

    def _change(self, alarm_name: str, event: object, message: object, state: str) -> list[Any]:
        alarm, actions = self._actions(alarm_name, state)
        for action in actions:
            if ":lambda:" not in action and ":sns:" not in action:
                raise DeploymentError(
                    f"the emulator lets alarms call functions and tell topics, not {action} of {alarm_name}"
                )
        self._states[alarm_name] = state
        subject = f'{state}: "{alarm_name}"'
        return [answer for action in actions for answer in self._act(action, alarm, subject, event, message)]

    def _actions(self, alarm_name: str, state: str) -> tuple[str, list[str]]:
        """The alarm's ARN, and what it does."""
        for resource, made in self._existing("AWS::CloudWatch::Alarm"):
            if made.ref == alarm_name:
                enabled = resource.properties.get("ActionsEnabled", True)
                actions = resource.properties.get(ACTIONS[state], ()) if enabled else ()
                return str(made.attributes["Arn"]), list(actions)
        raise DeploymentError(f"there is no alarm {alarm_name}")

    def _act(self, action: str, alarm: str, subject: str, event: object, message: object) -> Iterator[Any]:
        if ":lambda:" in action:
            refuse_stranger(self._existing, action, ALARMS, alarm)
            yield self._invoke(action, event)
            return
        text = json.dumps(message)
        self.messages.setdefault(action, []).append(text)
        for subscription, function in self._functions_of(action):
            refuse_stranger(self._existing, function, TOPICS, action)
            record = _record(action, subscription, subject, text)
            yield self._invoke(function, {"Records": [record]})

    def _functions_of(self, topic: str) -> Iterator[tuple[str, str]]:
        """The functions that listen to a topic, each after its subscription."""
        for resource, made in self._existing("AWS::SNS::Subscription"):
            found = resource.properties
            if (found["TopicArn"], found["Protocol"]) == (topic, "lambda"):
                yield made.ref, found["Endpoint"]
        for resource, made in self._existing("AWS::SNS::Topic"):
            for number, found in enumerate(resource.properties.get("Subscription", ())):
                if (made.ref, found["Protocol"]) == (topic, "lambda"):
                    yield f"{topic}:{number}", found["Endpoint"]


def _values(alarm: Mapping[str, Any], get_metric_data: GetMetricData, now: datetime) -> list[float | None]:
    """The metric's value in each period that is over, the newest first."""
    seconds = period_seconds(alarm)
    end = last_period_end(now, seconds)
    begins = [end - timedelta(seconds=seconds) * number for number in range(1, num_periods(alarm) + 1)]
    (result,) = get_metric_data(MetricDataQueries=[query_of(alarm)], StartTime=begins[-1], EndTime=end)[
        "MetricDataResults"
    ]
    found = dict(zip(result["Timestamps"], result["Values"], strict=True))
    return [found.get(begin) for begin in begins]


def _record(topic: str, subscription: str, subject: str, message: str) -> dict[str, Any]:
    """A message as SNS hands it to a function.

    https://docs.aws.amazon.com/lambda/latest/dg/with-sns.html (read 2026-12-02)
    """
    return {
        "EventSource": "aws:sns",
        "EventVersion": "1.0",
        "EventSubscriptionArn": subscription,
        "Sns": {
            "Type": "Notification",
            "MessageId": "00000000-0000-0000-0000-000000000000",
            "TopicArn": topic,
            "Subject": subject,
            "Message": message,
            "Timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "MessageAttributes": {},
        },
    }
