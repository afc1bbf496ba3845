"""What a moment of one of EventBridge Scheduler's schedules does: it calls its target, as its own role."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from hypertier.errors import DeploymentError
from hypertier_cdk.testing.iam import is_allowed
from hypertier_cdk.testing.providers import Made, Resource
from hypertier_cdk.testing.roles import Roles, trust_of

Existing = Callable[[str], Iterable[tuple[Resource, Made]]]
PRINCIPAL = "scheduler.amazonaws.com"


class Schedules:
    """The schedules among what exists."""

    def __init__(self, existing: Existing, roles: Roles, invoke: Callable[[str, object], Any]) -> None:
        self._existing = existing
        self._roles = roles
        self._invoke = invoke

    def pass_moment(self, name: str, at: datetime) -> Any:
        """Do what the schedule does at that moment, and return what its function returns.

        Raises:
            DeploymentError: there is no such schedule, it is off, calls something else than a function, its
            role does not let it, or the function failed.
        """
        schedule, made = self._find(name)
        target = schedule.properties["Target"]
        if schedule.properties.get("State", "ENABLED") != "ENABLED":
            raise DeploymentError(f"the schedule {name} is {schedule.properties['State']}")
        if ":lambda:" not in target["Arn"]:
            raise DeploymentError(
                f"the emulator lets schedules call functions, not {target['Arn']} of {name}"
            )
        self._refuse_forbidden(schedule, target)
        return self._invoke(target["Arn"], json.loads(_filled_in(target.get("Input", "{}"), made, at)))

    def _refuse_forbidden(self, schedule: Resource, target: Mapping[str, Any]) -> None:
        """Refuse what the schedule's role does not allow, or a role that is not for it."""
        role = self._roles.caller(target["RoleArn"])
        if role is None:
            raise DeploymentError(f"no stack made {target['RoleArn']}, the role of {schedule.name}")
        group = f"arn:aws:scheduler:{schedule.region}:{schedule.account}:schedule-group/"
        context = {
            "aws:SourceAccount": schedule.account,
            "aws:SourceArn": group + schedule.properties.get("GroupName", "default"),
        }
        trusted = trust_of(self._existing, target["RoleArn"], PRINCIPAL)
        if not is_allowed(trusted, "sts:AssumeRole", role.arn, context):
            raise DeploymentError(f"{PRINCIPAL} may not be {role.arn} for {context['aws:SourceArn']}")
        needs = [("lambda:InvokeFunction", target["Arn"])]
        if "DeadLetterConfig" in target:
            needs.append(("sqs:SendMessage", target["DeadLetterConfig"]["Arn"]))
        for action, resource in needs:
            if not is_allowed(role.statements, action, resource, {}):
                raise DeploymentError(
                    f"{role.arn} is not authorized to perform: {action} on resource: {resource}"
                )

    def _find(self, name: str) -> tuple[Resource, Made]:
        for resource, made in self._existing("AWS::Scheduler::Schedule"):
            if made.ref == name:
                return resource, made
        raise DeploymentError(f"there is no schedule {name}")


def _filled_in(text: str, made: Made, at: datetime) -> str:
    """A target's input with what EventBridge Scheduler knows.

    https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html
    (read 2026-12-02)
    """
    known = {
        "scheduled-time": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "schedule-arn": str(made.attributes.get("Arn", made.ref)),
        "execution-id": "00000000000000000000000000000000",
        "attempt-number": "1",
    }
    for attribute, value in known.items():
        text = text.replace(f"<aws.scheduler.{attribute}>", value)
    return text
