"""The Lambda function: parses an event, decides, applies the answer, and writes one line.

It raises what it cannot do, after writing the line, so that Lambda tries again and at last hands the event
to the function's on-failure destination.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from .decision import Action, decide
from .deployment import patch_for, read_state
from .eks import connect
from .errors import ConflictError, HookError
from .event import AlarmEvent, ScheduleEvent, parse_event
from .scale_in import Pods, WarmTokens, mark_coldest
from .settings import Settings, read_settings
from .warmth import read_warm_tokens

MAX_ATTEMPTS = 5
MARGIN_SECONDS = 1.0
SECONDS_WITHOUT_CONTEXT = 30.0


class LambdaContext(Protocol):
    """The one thing that the hook asks of Lambda's context object."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the function."""


class Deployments(Pods, Protocol):
    """What `apply` needs of a cluster; `kubernetes.KubernetesApi` is one."""

    def read_deployment(self, namespace: str, name: str) -> dict[str, Any]: ...

    def patch_deployment(self, namespace: str, name: str, patch: Mapping[str, Any]) -> dict[str, Any]: ...


def handler(event: object, context: LambdaContext | None) -> dict[str, Any]:
    """Apply one alarm's transition, or one schedule, and return the line that was written.

    Raises:
        HookError: the settings, the event or the cluster do not allow it; the line says the same.
    """
    line: dict[str, Any] = {"hook": "replicas"}
    try:
        settings = read_settings(os.environ)
        apply(event, settings, connect, datetime.now(UTC), countdown(context), line)
    except HookError as error:
        line["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        print(json.dumps(line), flush=True)
    return line


def apply(
    event: object,
    settings: Settings,
    connect: Callable[[str, Callable[[], float]], Deployments],
    now: datetime,
    remaining_seconds: Callable[[], float],
    line: dict[str, Any],
    warm_tokens: WarmTokens = read_warm_tokens,
) -> None:
    """Decide on the Deployment as it is and write the answer, again where somebody else wrote in between.

    Where some replicas go and some stay, those that are worth least are marked just before.
    Fills `line` as it goes, so that a failure tells how far it came. Five lost races end in `ConflictError`.
    """
    parsed = parse_event(event)
    line |= told(parsed) | {
        "cluster": settings.cluster_name,
        "deployment": f"{settings.namespace}/{settings.deployment}",
        "dry_run": settings.dry_run,
    }
    cluster = connect(settings.cluster_name, remaining_seconds)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        deployment = cluster.read_deployment(settings.namespace, settings.deployment)
        state = read_state(deployment, settings.limits)
        decision = decide(parsed, state, now)
        line |= {
            "action": decision.action.value,
            "replicas_before": state.replicas,
            "replicas": decision.replicas,
            "reason": decision.reason,
            "attempts": attempt,
        }
        if settings.endpoint and decision.action is Action.DOWN and decision.replicas > 0:
            line.pop("coldest_unknown", None)  # of an attempt before
            line |= {"endpoint": settings.endpoint} | mark_coldest(
                cluster, settings, deployment, decision.replicas, now, remaining_seconds, warm_tokens
            )
        if settings.dry_run or not decision.remember:
            return
        try:
            patch = patch_for(deployment, decision, parsed, settings.limits, now)
            cluster.patch_deployment(settings.namespace, settings.deployment, patch)
        except ConflictError:
            if attempt == MAX_ATTEMPTS:
                raise
        else:
            return


def told(event: AlarmEvent | ScheduleEvent) -> dict[str, Any]:
    """What the line says of the event."""
    if isinstance(event, ScheduleEvent):
        return {"schedule": event.schedule, "scheduled_at": event.scheduled_at.isoformat()}
    return {
        "alarm": event.alarm_name,
        "state": event.state,
        "transitioned_at": event.transitioned_at.isoformat(),
        "alarm_reason": event.reason[:300],
    }


def countdown(context: LambdaContext | None) -> Callable[[], float]:
    """Return a function that gives the seconds left to work with, less a margin for the last line."""
    if context is not None:
        return lambda: context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS
    end = time.monotonic() + SECONDS_WITHOUT_CONTEXT
    return lambda: end - time.monotonic()
