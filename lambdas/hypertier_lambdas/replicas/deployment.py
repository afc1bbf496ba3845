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
from .event import AlarmEvent

LAST_SCALED_AT = "hypertier.dev/replicas-last-scaled-at"
LAST_REASON = "hypertier.dev/replicas-last-reason"
HIGH_ALARM_SEEN = "hypertier.dev/replicas-high-alarm-seen"
LOW_ALARM_SEEN = "hypertier.dev/replicas-low-alarm-seen"
ANNOTATIONS = (LAST_SCALED_AT, LAST_REASON, HIGH_ALARM_SEEN, LOW_ALARM_SEEN)


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
        for alarm, key in ((limits.high_alarm, HIGH_ALARM_SEEN), (limits.low_alarm, LOW_ALARM_SEEN))
        if (time := _time(annotations, key, metadata)) is not None
    }
    return ReplicaState(replicas, limits, _time(annotations, LAST_SCALED_AT, metadata), seen)


def patch_for(
    deployment: Mapping[str, Any], decision: Decision, event: AlarmEvent, limits: Limits, now: datetime
) -> dict[str, Any]:
    """Return the merge patch that makes `decision` so, valid only while `deployment` has not changed."""
    seen = HIGH_ALARM_SEEN if event.alarm_name == limits.high_alarm else LOW_ALARM_SEEN
    annotations = {seen: event.transitioned_at.isoformat(), LAST_REASON: decision.reason}
    metadata = {"resourceVersion": deployment["metadata"]["resourceVersion"], "annotations": annotations}
    if decision.action is Action.NONE:
        return {"metadata": metadata}
    annotations[LAST_SCALED_AT] = now.isoformat()
    return {"metadata": metadata, "spec": {"replicas": decision.replicas}}


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
