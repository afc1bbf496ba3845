"""EventBridge Scheduler's part of scaling: a schedule for each change of the bounds, that calls the hook.

https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-templated.html (read 2026-12-02)
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from hypertier.spec.schedules import ScalingSchedule
from hypertier_cdk.plain import resource
from hypertier_cdk.roles import allow, policies

# Scheduler puts the moment that a schedule is for in its place, the same at each attempt.
# https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
MAX_AGE = cdk.Duration.hours(1)
MAX_ATTEMPTS = 20


class BoundsSchedules(Construct):
    """A schedule for each of `schedules`, in a group of its own; what can't be delivered goes to `failures`.

    Their role may call the function and write to that queue, and only for schedules of this group.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        schedules: Sequence[ScalingSchedule],
        function: lambda_.IFunction,
        failures: sqs.IQueue,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        # Known before the role exists, which trusts this group alone.
        name = cdk.Names.unique_resource_name(self, max_length=64, separator="-")
        group_arn = stack.format_arn(service="scheduler", resource="schedule-group", resource_name=name)
        group = resource(self, "Group", "AWS::Scheduler::ScheduleGroup", Name=name)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": stack.account, "aws:SourceArn": group_arn},
                },
            ),
            description="calls the hook that steps replicas",
            inline_policies=policies(
                allow("Call", ["lambda:InvokeFunction"], [function.function_arn]),
                allow("Keep", ["sqs:SendMessage"], [failures.queue_arn]),
            ),
        )
        for schedule in schedules:
            resource(
                self,
                schedule.name,
                "AWS::Scheduler::Schedule",
                Description=f"{schedule.name}: {_bounds_of(schedule)}",
                GroupName=group.ref,
                ScheduleExpression=schedule.expression,
                ScheduleExpressionTimezone=schedule.time_zone,
                FlexibleTimeWindow={"Mode": "OFF"},
                State="ENABLED",
                Target={
                    "Arn": function.function_arn,
                    "RoleArn": role.role_arn,
                    "Input": json.dumps({"schedule": schedule.name, "scheduledAt": SCHEDULED_TIME}),
                    "DeadLetterConfig": {"Arn": failures.queue_arn},
                    "RetryPolicy": {
                        "MaximumEventAgeInSeconds": MAX_AGE.to_seconds(),
                        "MaximumRetryAttempts": MAX_ATTEMPTS,
                    },
                },
            )


def _bounds_of(schedule: ScalingSchedule) -> str:
    """The bounds that it names, for people."""
    low, high = schedule.min_replicas, schedule.max_replicas
    named = ((f"at least {low}", low), (f"at most {high}", high))
    return " and ".join(text for text, bound in named if bound is not None) + " replicas"
