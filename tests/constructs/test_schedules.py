"""EventBridge Scheduler calls the hook, at the moments and with the bounds that schedules name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from fakes_scaling import gpu_cluster, scaling_on
from fakes_templates import new_stack, permissions, properties, resources, template_of

from hypertier.errors import ConfigError
from hypertier_cdk import ScalingSchedule
from hypertier_cdk.review.templates import text_of
from hypertier_cdk.scaling import CacheUtilizationScaling
from hypertier_cdk.schedules import SCHEDULED_TIME, BoundsSchedules
from hypertier_cdk.testing import Emulator
from hypertier_lambdas.replicas.event import ScheduleEvent, parse_event
from hypertier_lambdas.replicas.settings import VARIABLES, read_settings

HANDLER = "replicas.handler.handler"
DAY = ScalingSchedule(name="day", cron="cron(30 7 ? * MON-FRI *)", time_zone="Europe/Berlin", min_replicas=2)
NIGHT = ScalingSchedule(name="night", cron="cron(0 20 ? * * *)", min_replicas=0)
LAUNCH = ScalingSchedule(name="launch", at="2027-03-01T08:00:00", min_replicas=4, max_replicas=5)


def scaled(stack: cdk.Stack, *schedules: ScalingSchedule) -> CacheUtilizationScaling:
    return scaling_on(stack, gpu_cluster(stack), schedules=schedules)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    stack = new_stack("Scheduled")
    scaled(stack, DAY, LAUNCH)
    return template_of(stack)


def schedules_of(template: dict[str, Any]) -> list[dict[str, Any]]:
    return properties(template, "AWS::Scheduler::Schedule")


def role_of(template: dict[str, Any]) -> str:
    (role_id,) = {schedule["Target"]["RoleArn"]["Fn::GetAtt"][0] for schedule in schedules_of(template)}
    return str(role_id)


def function_of(template: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    ((logical_id, found),) = [
        (logical_id, entry["Properties"])
        for logical_id, entry in resources(template, "AWS::Lambda::Function").items()
        if entry["Properties"]["Handler"] == HANDLER
    ]
    return logical_id, found


def test_each_schedule_says_when_and_in_whose_time(template: dict[str, Any]) -> None:
    when = {
        (entry["ScheduleExpression"], entry["ScheduleExpressionTimezone"]) for entry in schedules_of(template)
    }

    assert when == {
        ("cron(30 7 ? * MON-FRI *)", "Europe/Berlin"),
        ("at(2027-03-01T08:00:00)", "UTC"),
    }
    assert {entry["FlexibleTimeWindow"]["Mode"] for entry in schedules_of(template)} == {"OFF"}


def test_a_schedule_calls_the_hook_with_an_event_that_it_reads(template: dict[str, Any]) -> None:
    function_id, _ = function_of(template)
    sent = [entry["Target"] for entry in schedules_of(template)]

    events = [
        parse_event(json.loads(target["Input"].replace(SCHEDULED_TIME, "2026-12-01T06:30:00Z")))
        for target in sent
    ]

    assert {target["Arn"]["Fn::GetAtt"][0] for target in sent} == {function_id}
    assert {event.schedule for event in events if isinstance(event, ScheduleEvent)} == {"day", "launch"}


def test_the_function_knows_the_bounds_of_each_schedule(template: dict[str, Any]) -> None:
    _, function = function_of(template)
    environment = {name: text_of(value) for name, value in function["Environment"]["Variables"].items()}

    bounds = read_settings(environment).limits.schedules

    assert set(environment) == set(VARIABLES) - {"SLEEP_ALARM", "WAKE_ALARM"}
    assert {name: (found.min_replicas, found.max_replicas) for name, found in bounds.items()} == {
        "day": (2, 3),
        "launch": (4, 5),
    }


def test_the_schedules_role_may_call_the_function_and_keep_what_failed_and_nothing_else(
    template: dict[str, Any],
) -> None:
    granted = permissions(template, role_of(template))

    assert sorted(entry["Action"] for entry in granted) == ["lambda:InvokeFunction", "sqs:SendMessage"]
    assert all("*" not in json.dumps(entry["Resource"]) for entry in granted)


def test_eventbridge_scheduler_takes_the_role_for_this_group_alone(template: dict[str, Any]) -> None:
    role = resources(template, "AWS::IAM::Role")[role_of(template)]["Properties"]
    (group,) = properties(template, "AWS::Scheduler::ScheduleGroup")

    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]

    assert statement["Principal"] == {"Service": "scheduler.amazonaws.com"}
    condition = statement["Condition"]["StringEquals"]
    assert condition["aws:SourceAccount"] == {"Ref": "AWS::AccountId"}
    assert text_of(condition["aws:SourceArn"]).endswith(f":schedule-group/{group['Name']}")


def test_schedules_stand_in_a_group_of_their_own(template: dict[str, Any]) -> None:
    ((group_id, group),) = resources(template, "AWS::Scheduler::ScheduleGroup").items()

    assert {entry["GroupName"]["Ref"] for entry in schedules_of(template)} == {group_id}
    assert re.fullmatch(r"[0-9a-zA-Z-_.]{1,64}", group["Properties"]["Name"])


def test_what_can_not_be_delivered_comes_to_the_queue_of_failures(template: dict[str, Any]) -> None:
    (config,) = properties(template, "AWS::Lambda::EventInvokeConfig")

    queues = {entry["Target"]["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0] for entry in schedules_of(template)}

    assert queues == {config["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"][0]}


def test_a_night_of_zero_brings_the_two_alarms_and_the_hook_hears_when_somebody_asks_again() -> None:
    stack = new_stack("Nights")
    scaled(stack, DAY, NIGHT)
    template = template_of(stack)
    _, function = function_of(template)
    environment = {name: text_of(value) for name, value in function["Environment"]["Variables"].items()}

    limits = read_settings(environment).limits

    alarms = {alarm["AlarmName"]: alarm for alarm in properties(template, "AWS::CloudWatch::Alarm")}
    assert {limits.sleep_alarm, limits.wake_alarm} < set(alarms)
    hears_of_the_end = {name for name, alarm in alarms.items() if alarm.get("OKActions")}
    assert hears_of_the_end == {limits.sleep_alarm}
    assert limits.schedules["night"].min_replicas == 0


def test_without_schedules_there_is_none_of_it() -> None:
    stack = new_stack("Plain")
    scaled(stack)
    template = template_of(stack)

    assert not resources(template, "AWS::Scheduler::ScheduleGroup")
    assert "SCHEDULES" not in function_of(template)[1]["Environment"]["Variables"]


def test_the_emulator_deploys_schedules(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path / "cdk.out"))
    stack = cdk.Stack(app, "Scheduled", env=cdk.Environment(region="us-west-2"))
    code = lambda_.Code.from_inline("def handler(event, context):\n    return event")
    runtime = lambda_.Runtime.PYTHON_3_14
    function = lambda_.Function(stack, "Hook", runtime=runtime, handler="index.handler", code=code)
    queue = sqs.Queue(stack, "Failures")
    BoundsSchedules(stack, "Schedules", schedules=[DAY, LAUNCH], function=function, failures=queue)
    emulator = Emulator()

    emulator.deploy(app.synth().directory)

    made = emulator.resources("AWS::Scheduler::Schedule")
    ((group, _),) = emulator.resources("AWS::Scheduler::ScheduleGroup")
    ((_, hook),) = emulator.resources("AWS::Lambda::Function")
    assert {resource.properties["GroupName"] for resource, _ in made} == {group.properties["Name"]}
    assert {resource.properties["Target"]["Arn"] for resource, _ in made} == {hook.attributes["Arn"]}


def test_schedules_that_contradict_one_another_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"scaling\.schedules is .*; expected each name once"):
        scaled(new_stack(), DAY, DAY)


def test_bounds_above_the_plain_maximum_are_refused_by_the_schedule_s_name() -> None:
    many = ScalingSchedule(name="many", cron="cron(0 8 ? * MON *)", min_replicas=4)

    with pytest.raises(ConfigError, match=r"scaling\.schedules\.many\.minReplicas is 4; expected at most"):
        scaled(new_stack(), many)
