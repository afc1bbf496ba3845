"""Between a Kubernetes Deployment and the values a decision reads and gives: pure translation.

The hook keeps what it knows in annotations of the Deployment itself: no table to pay for, nothing that could
disagree with the thing it describes, and one write that changes both or neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .decision import Action, Decision, Limits, ReplicaState
from .errors import ClusterError, StateError
from .event import AlarmEvent, ScheduleEvent

LAST_SCALED_AT = "hypertier.dev/replicas-last-scaled-at"
LAST_REASON = "hypertier.dev/replicas-last-reason"
HIGH_ALARM_SEEN = "hypertier.dev/replicas-high-alarm-seen"
LOW_ALARM_SEEN = "hypertier.dev/replicas-low-alarm-seen"
SCHEDULE = "hypertier.dev/replicas-schedule"
SCHEDULED_AT = "hypertier.dev/replicas-scheduled-at"
SLEEP_ALARM_SEEN = "hypertier.dev/replicas-sleep-alarm-seen"
WAKE_ALARM_SEEN = "hypertier.dev/replicas-wake-alarm-seen"
ASLEEP = "hypertier.dev/replicas-asleep"
IDLE = "hypertier.dev/replicas-idle"
ANNOTATIONS = (
    LAST_SCALED_AT,
    LAST_REASON,
    HIGH_ALARM_SEEN,
    LOW_ALARM_SEEN,
    SCHEDULE,
    SCHEDULED_AT,
    SLEEP_ALARM_SEEN,
    WAKE_ALARM_SEEN,
    ASLEEP,
    IDLE,
)


def read_state(deployment: Mapping[str, Any], limits: Limits) -> ReplicaState:
    """Return what `deployment` says.

    Raises:
        StateError: an annotation of ours holds no time; it names the command that removes it.
        ClusterError: `deployment` has no whole number of replicas.
    """
    # An API server always fills spec.replicas in (default 1): its absence means that this is no Deployment.
    replicas = deployment.get("spec", {}).get("replicas")
    if not isinstance(replicas, int):
        raise ClusterError(f"spec.replicas is {replicas!r}; expected a whole number, as every Deployment has")
    metadata = deployment["metadata"]
    annotations = metadata.get("annotations") or {}
    seen = {
        alarm: time
        for alarm, key in _seen_keys(limits).items()
        if (time := _time(annotations, key, metadata)) is not None
    }
    schedule, scheduled_at = annotations.get(SCHEDULE), _time(annotations, SCHEDULED_AT, metadata)
    scheduled = ScheduleEvent(schedule, scheduled_at) if schedule and scheduled_at else None
    return ReplicaState(
        replicas,
        limits,
        _time(annotations, LAST_SCALED_AT, metadata),
        seen,
        scheduled,
        asleep=replicas == 0 and ASLEEP in annotations,
        idle=IDLE in annotations,
    )


def patch_for(
    deployment: Mapping[str, Any],
    decision: Decision,
    event: AlarmEvent | ScheduleEvent,
    limits: Limits,
    now: datetime,
) -> dict[str, Any]:
    """Return the merge patch that makes `decision` so, valid only while `deployment` has not changed."""
    annotations: dict[str, str | None] = {**_handled(event, limits), LAST_REASON: decision.reason}
    metadata = {"resourceVersion": deployment["metadata"]["resourceVersion"], "annotations": annotations}
    annotations |= _idle(deployment, decision, event, limits)
    if decision.action is Action.NONE:
        return {"metadata": metadata}
    annotations[LAST_SCALED_AT] = now.isoformat()
    if limits.sleep_alarm:
        annotations[ASLEEP] = None if decision.replicas else "true"  # null takes it away
    return {"metadata": metadata, "spec": {"replicas": decision.replicas}}


def _handled(event: AlarmEvent | ScheduleEvent, limits: Limits) -> dict[str, str]:
    """The annotations that remember an event."""
    if isinstance(event, ScheduleEvent):
        return {SCHEDULE: event.schedule, SCHEDULED_AT: event.scheduled_at.isoformat()}
    return {_seen_keys(limits)[event.alarm_name]: event.transitioned_at.isoformat()}


def _idle(
    deployment: Mapping[str, Any], decision: Decision, event: AlarmEvent | ScheduleEvent, limits: Limits
) -> dict[str, str | None]:
    """The annotation that nobody asks, as the sleep alarm said last; null takes it away, once woken."""
    if isinstance(event, AlarmEvent) and event.alarm_name == limits.sleep_alarm:
        return {IDLE: "true" if event.state == "ALARM" else None}
    woken = decision.action is Action.UP and deployment["spec"]["replicas"] == 0
    return {IDLE: None} if woken else {}


def _seen_keys(limits: Limits) -> dict[str, str]:
    """The annotation that remembers each alarm's last transition."""
    keys = {limits.high_alarm: HIGH_ALARM_SEEN, limits.low_alarm: LOW_ALARM_SEEN}
    if limits.sleep_alarm:
        keys |= {limits.sleep_alarm: SLEEP_ALARM_SEEN, limits.wake_alarm: WAKE_ALARM_SEEN}
    return keys


def _time(annotations: Mapping[str, str], key: str, metadata: Mapping[str, Any]) -> datetime | None:
    text = annotations.get(key)
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        name, namespace = metadata.get("name"), metadata.get("namespace")
        raise StateError(
            f"the annotation {key} is {text!r}; expected a time with its zone; remove it with: "
            f"kubectl annotate deployment {name} -n {namespace} {key}-"
        )
    return time
