"""EventBridge in the emulator: schedules call as their roles, rules call the functions of what they match."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from fakes_assembly import assembly, function, let_call

from hypertier.errors import DeploymentError
from hypertier_cdk.testing import Emulator
from hypertier_cdk.testing.permissions import RULES

MOMENT = datetime(2026, 12, 2, 15, 30, tzinfo=UTC)
# In the form of HyperPod's own events of its nodes' health.
HEALTH = {
    "source": "aws.sagemaker",
    "detail-type": "SageMaker HyperPod Cluster Node Health Event",
    "detail": {"ClusterName": "ours", "HealthSummary": {"HealthStatus": "Unhealthy"}},
}


def deployed(build: Callable[[cdk.Stack, lambda_.Function], Any], code: Path) -> Emulator:
    emulator = Emulator()
    emulator.deploy(
        assembly(lambda stack: build(stack, function(stack, code, environment={"MINE": "called"})))
    )
    return emulator


def scheduled(*, trusts: str = "scheduler.amazonaws.com", may_call: bool = True, **changes: Any) -> Any:
    def build(stack: cdk.Stack, called: lambda_.Function) -> None:
        role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal(trusts))
        if may_call:
            called.grant_invoke(role)
        settings = {
            "name": "morning",
            "flexible_time_window": scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            "schedule_expression": "cron(30 7 ? * * *)",
            "target": scheduler.CfnSchedule.TargetProperty(
                arn=called.function_arn,
                role_arn=role.role_arn,
                input='{"at": "<aws.scheduler.scheduled-time>"}',
            ),
        }
        scheduler.CfnSchedule(stack, "Schedule", **settings | changes)

    return build


def test_a_moment_of_a_schedule_calls_its_function_with_the_moment_filled_in(code: Path) -> None:
    emulator = deployed(scheduled(), code)

    answer = emulator.pass_schedule("morning", MOMENT)

    assert (answer["event"], answer["env"]) == ({"at": "2026-12-02T15:30:00Z"}, "called")


@pytest.mark.parametrize(
    ("build", "name", "said"),
    [
        pytest.param(
            scheduled(may_call=False), "morning", "not authorized to perform: lambda", id="forbidden"
        ),
        pytest.param(
            scheduled(trusts="s3.amazonaws.com"), "morning", "may not be arn:aws:iam", id="untrusted"
        ),
        pytest.param(scheduled(state="DISABLED"), "morning", "is DISABLED", id="off"),
        pytest.param(scheduled(), "evening", "there is no schedule evening", id="unknown"),
    ],
)
def test_a_schedule_that_may_not_call_says_why(build: Any, name: str, said: str, code: Path) -> None:
    emulator = deployed(build, code)

    with pytest.raises(DeploymentError, match=said):
        emulator.pass_schedule(name, MOMENT)


def ruled(pattern: dict[str, Any], *, allowed: bool = True, **target: Any) -> Any:
    def build(stack: cdk.Stack, called: lambda_.Function) -> None:
        if allowed:
            let_call(called, RULES)
        events.CfnRule(
            stack,
            "Rule",
            name="unhealthy",
            event_pattern=pattern,
            targets=[{"id": "1", "arn": called.function_arn, **target}],
        )

    return build


@pytest.mark.parametrize(
    ("pattern", "is_called"),
    [
        pytest.param({"source": ["aws.sagemaker"]}, True, id="a value"),
        pytest.param({"source": ["aws.ec2", "aws.sagemaker"]}, True, id="one of several"),
        pytest.param({"source": ["aws.ec2"]}, False, id="another value"),
        pytest.param({"detail": {"ClusterName": ["ours"]}}, True, id="further in"),
        pytest.param({"detail": {"ClusterName": ["theirs"]}}, False, id="another further in"),
        pytest.param({"detail-type": [{"prefix": "SageMaker HyperPod"}]}, True, id="a beginning"),
        pytest.param({"detail": {"ClusterName": [{"anything-but": ["ours"]}]}}, False, id="all but it"),
        pytest.param({"detail": {"Reason": [{"exists": False}]}}, True, id="what is not there"),
        pytest.param({"detail": {"Reason": ["GPU"]}}, False, id="a value of what is not there"),
    ],
)
def test_a_rule_calls_its_function_with_the_events_that_its_pattern_matches(
    pattern: dict[str, Any], is_called: bool, code: Path
) -> None:
    emulator = deployed(ruled(pattern), code)

    answers = emulator.put_event(HEALTH)

    assert [answer["event"] for answer in answers.get("unhealthy", [])] == [HEALTH] * is_called


@pytest.mark.parametrize(
    ("build", "said"),
    [
        pytest.param(
            ruled({"source": ["aws.sagemaker"]}, allowed=False), "events.* may not call", id="forbidden"
        ),
        pytest.param(ruled({"source": [{"suffix": "maker"}]}), "not .*suffix", id="an unknown operator"),
        pytest.param(
            ruled({"source": ["aws.sagemaker"]}, inputPath="$.detail"), "InputPath", id="a changed event"
        ),
    ],
)
def test_a_rule_that_can_not_be_followed_says_why(build: Any, said: str, code: Path) -> None:
    emulator = deployed(build, code)

    with pytest.raises(DeploymentError, match=said):
        emulator.put_event(HEALTH)
