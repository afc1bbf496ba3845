"""Whether an alarm or a schedule changes the number of replicas, to what, and why: pure arithmetic.

One transition, one step, once. Every transition that was looked at is remembered in the Deployment, also
where it changed nothing, so that a replay (Lambda may deliver an event more than once, a person may send one
again from a dead-letter queue) never acts later than the alarm meant it.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from .event import AlarmEvent, ScheduleEvent

HELD_LATELY = timedelta(minutes=3)
"""The sleep alarm's last data points are up to so old: it does not know of a request that was held since.

An alarm that stays in ALARM does not ask again, so that whoever went to sleep over a held request would not
be woken while requests come. Less than any idle time of a deployment file, 5 minutes, or nobody slept.
"""


class Action(Enum):
    """What a decision asks for."""

    UP = "up"
    DOWN = "down"
    NONE = "none"


@dataclass(frozen=True)
class Bounds:
    """Replicas that there may be: 0 or more to no less than that. `source` is for people."""

    min_replicas: int
    max_replicas: int
    source: str = ""


@dataclass(frozen=True)
class Limits:
    """What the hook was told when it was deployed. `max_replicas` is 1 or more, `min_replicas` no more.

    `schedules` are the bounds that each schedule sets, in the order of the deployment file. Where any of the
    minimums is 0, `sleep_alarm` asks for no replica and `wake_alarm` for one; else there are none.
    """

    min_replicas: int
    max_replicas: int
    cooldown: timedelta
    high_alarm: str
    low_alarm: str
    schedules: Mapping[str, Bounds] = field(default_factory=dict)
    sleep_alarm: str = ""
    wake_alarm: str = ""

    @property
    def alarms(self) -> tuple[str, ...]:
        """The names of all alarms that may ask."""
        named = (self.high_alarm, self.low_alarm, self.sleep_alarm, self.wake_alarm)
        return tuple(name for name in named if name)


@dataclass(frozen=True)
class ReplicaState:
    """What the Deployment says now: its `spec.replicas`, and what the hook wrote there before.

    `seen` maps an alarm's name to the time of its last transition that was looked at; `scheduled` is the
    schedule that came last, which a later deployment may no longer have. At 0 replicas, `asleep` says that
    the hook put it there, and no person. `idle` says that the sleep alarm was in ALARM when it last told.
    """

    replicas: int
    limits: Limits
    last_scaled_at: datetime | None = None
    seen: Mapping[str, datetime] = field(default_factory=dict)
    scheduled: ScheduleEvent | None = None
    asleep: bool = False
    idle: bool = False

    @property
    def bounds(self) -> Bounds:
        """The bounds in force: those of the schedule that came last, else the plain ones."""
        name = self.scheduled.schedule if self.scheduled else ""
        if name in self.limits.schedules:
            return self.limits.schedules[name]
        return Bounds(self.limits.min_replicas, self.limits.max_replicas)


@dataclass(frozen=True)
class Decision:
    """What to write: the replicas to have, and whether to remember the transition. `reason` is for people."""

    action: Action
    replicas: int
    reason: str
    remember: bool


def decide(event: AlarmEvent | ScheduleEvent, state: ReplicaState, now: datetime) -> Decision:
    """Return one step up for the high alarm, one down for the low alarm, or nothing with the reason why.

    For a schedule, return the nearest number within its bounds. A changed number always lies within the
    bounds in force. A Deployment at 0 was put to rest by a person and stays there, unless the hook put it to
    sleep.
    """
    if isinstance(event, ScheduleEvent):
        return _keep_to(event, state)
    limits, bounds = state.limits, state.bounds

    def stay(reason: str, *, remember: bool = True) -> Decision:
        return Decision(Action.NONE, state.replicas, reason, remember)

    if event.alarm_name not in limits.alarms:
        return stay(
            f"{event.alarm_name} is neither the high alarm {limits.high_alarm} nor the low alarm "
            f"{limits.low_alarm}"
            + (f", {limits.sleep_alarm} or {limits.wake_alarm}" * bool(limits.wake_alarm)),
            remember=False,
        )
    ends_idleness = event.alarm_name == limits.sleep_alarm and event.state == "OK"
    if event.state != "ALARM" and not ends_idleness:
        return stay(f"{event.alarm_name} went to {event.state}; only ALARM asks for a step", remember=False)
    seen = state.seen.get(event.alarm_name)
    if seen is not None and event.transitioned_at <= seen:
        return stay(
            f"{event.alarm_name}'s transition of {event.transitioned_at.isoformat()} is not newer than the "
            f"one of {seen.isoformat()} that was handled already",
            remember=False,
        )
    if ends_idleness:
        return stay(f"{event.alarm_name} went to OK: not idle, which a schedule may ask for later")
    if state.replicas == 0 and event.alarm_name == limits.wake_alarm and state.asleep:
        awake = max(1, bounds.min_replicas)
        reason = f"{event.alarm_name} went to ALARM: requests are held, wake to {awake} replica"
        return Decision(Action.UP, awake, reason + "s" * (awake > 1), remember=True)
    if state.replicas == 0:
        by = "asleep until a request is held" if state.asleep else "put to rest by hand"
        return stay(f"the Deployment is at 0 replicas: {by}, and so left alone")
    if event.alarm_name == limits.wake_alarm:
        return stay(f"the Deployment is at {state.replicas} replicas, awake already")
    if event.alarm_name == limits.sleep_alarm:
        if bounds.min_replicas > 0:
            return stay(f"MIN_REPLICAS {bounds.min_replicas}{bounds.source} lets nobody sleep")
        held = _held_lately(state, event.transitioned_at)
        if held is not None:
            return stay(
                f"requests were held at {held.isoformat()}, of which {event.alarm_name} can't know yet"
            )
        # Whatever the cooldown says: this alarm does not ask again while it stays as it is.
        reason = f"{event.alarm_name} went to ALARM: nobody asks, sleep from {state.replicas} to 0 replicas"
        return Decision(Action.DOWN, 0, reason, remember=True)

    up = event.alarm_name == limits.high_alarm
    if up and state.replicas >= bounds.max_replicas:
        return stay(
            f"{state.replicas} replicas is at or above MAX_REPLICAS {bounds.max_replicas}{bounds.source}"
        )
    least = max(1, bounds.min_replicas)  # that the last one is not needed, the sleep alarm alone says
    if not up and state.replicas <= least:
        return stay(f"{state.replicas} replicas is at or below MIN_REPLICAS {least}{bounds.source}")
    if state.last_scaled_at is not None and now - state.last_scaled_at < limits.cooldown:
        return stay(
            f"the last step was at {state.last_scaled_at.isoformat()}, less than COOLDOWN_SECONDS "
            f"{limits.cooldown.total_seconds():g} ago"
        )
    if up:
        replicas = max(state.replicas + 1, bounds.min_replicas)
        action = Action.UP
    else:
        replicas = min(state.replicas - 1, bounds.max_replicas)
        action = Action.DOWN
    reason = f"{event.alarm_name} went to ALARM: {action.value} from {state.replicas} to {replicas} replicas"
    return Decision(action, replicas, reason, remember=True)


def _keep_to(event: ScheduleEvent, state: ReplicaState) -> Decision:
    """Have as many replicas as the schedule's bounds allow, unless a later one came before it."""

    def stay(reason: str, *, remember: bool) -> Decision:
        return Decision(Action.NONE, state.replicas, reason, remember)

    named, last = event.schedule, state.scheduled
    bounds = state.limits.schedules.get(named)
    if bounds is None:
        known = ", ".join(state.limits.schedules) or "none"
        return stay(f"{named} is none of the schedules in SCHEDULES, which are {known}", remember=False)
    if last is not None and _place(event, state.limits) <= _place(last, state.limits):
        return stay(
            f"{named} of {event.scheduled_at.isoformat()} does not come after {last.schedule} of "
            f"{last.scheduled_at.isoformat()}, which was handled already",
            remember=False,
        )
    if state.replicas == 0 and not state.asleep:
        return stay("the Deployment is at 0 replicas: put to rest by hand, and so left alone", remember=True)
    said = f"{named} sets {bounds.min_replicas} to {bounds.max_replicas} replicas"
    replicas = min(max(state.replicas, bounds.min_replicas), bounds.max_replicas)
    if bounds.min_replicas == 0 and state.idle and _held_lately(state, event.scheduled_at) is None:
        # The sleep alarm rang while that was not allowed, and does not ask again while it stays as it is.
        said, replicas = f"{said}, and nobody asks", 0
    if replicas == state.replicas:
        return stay(f"{said}; {replicas} lie within", remember=True)
    action = Action.UP if replicas > state.replicas else Action.DOWN
    reason = f"{said}: {action.value} from {state.replicas} to {replicas}"
    return Decision(action, replicas, reason, remember=True)


def _held_lately(state: ReplicaState, at: datetime) -> datetime | None:
    """When requests were held of which the sleep alarm can't know at that moment; None for none."""
    held = state.seen.get(state.limits.wake_alarm)
    return held if held is not None and at - held < HELD_LATELY else None


def _place(event: ScheduleEvent, limits: Limits) -> tuple[datetime, int]:
    """What orders schedules: their moments, and for the same moment the order of the deployment file."""
    names = list(limits.schedules)
    return event.scheduled_at, names.index(event.schedule) if event.schedule in names else -1
