"""Bounds that a schedule sets hold until the next one, whatever comes twice, late or out of order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier_lambdas.replicas.decision import Action, Bounds, Limits, ReplicaState, decide
from hypertier_lambdas.replicas.errors import EventError, SettingError
from hypertier_lambdas.replicas.event import AlarmEvent, ScheduleEvent, parse_event
from hypertier_lambdas.replicas.settings import read_limits

NOW = datetime(2026, 12, 1, 6, 30, tzinfo=UTC)
HIGH, LOW = "high", "low"
SCHEDULES = {"day": Bounds(5, 10, " of the schedule day"), "night": Bounds(1, 3), "event": Bounds(9, 9)}
LIMITS = Limits(2, 7, timedelta(seconds=600), HIGH, LOW, SCHEDULES)
DAY = ScheduleEvent("day", NOW)
ENVIRONMENT = {"MIN_REPLICAS": "2", "MAX_REPLICAS": "7", "HIGH_ALARM": HIGH, "LOW_ALARM": LOW}

events = st.builds(
    ScheduleEvent,
    st.sampled_from([*SCHEDULES, "gone"]),
    st.integers(-5, 5).map(lambda hours: NOW + timedelta(hours=hours)),
)


def after(state: ReplicaState, event: ScheduleEvent, now: datetime = NOW) -> ReplicaState:
    """The state once the decision on `event` is written."""
    decision = decide(event, state, now)
    return ReplicaState(
        decision.replicas,
        state.limits,
        now if decision.action is not Action.NONE else state.last_scaled_at,
        state.seen,
        event if decision.remember else state.scheduled,
    )


@pytest.mark.parametrize(
    ("schedule", "replicas", "expected"),
    [
        pytest.param("day", 2, 5, id="fewer than its minimum"),
        pytest.param("day", 5, 5, id="its minimum"),
        pytest.param("day", 12, 10, id="more than its maximum"),
        pytest.param("night", 7, 3, id="down to its maximum"),
        pytest.param("event", 4, 9, id="one number alone"),
        pytest.param("day", 0, 0, id="put to rest by hand"),
    ],
)
def test_a_schedule_brings_the_replicas_within_its_bounds(
    schedule: str, replicas: int, expected: int
) -> None:
    decision = decide(ScheduleEvent(schedule, NOW), ReplicaState(replicas, LIMITS), NOW)

    assert decision.replicas == expected
    assert decision.remember
    assert (decision.action is Action.NONE) == (replicas == expected)


@pytest.mark.parametrize(
    ("alarm", "replicas", "expected"),
    [
        pytest.param(HIGH, 7, 8, id="above the plain maximum"),
        pytest.param(HIGH, 10, 10, id="at its maximum"),
        pytest.param(LOW, 5, 5, id="at its minimum"),
        pytest.param(LOW, 6, 5, id="down to its minimum"),
    ],
)
def test_alarms_step_within_the_bounds_in_force(alarm: str, replicas: int, expected: int) -> None:
    state = ReplicaState(replicas, LIMITS, scheduled=DAY)

    decision = decide(AlarmEvent(alarm, "ALARM", NOW), state, NOW)

    assert decision.replicas == expected


def test_why_an_alarm_does_nothing_names_the_schedule() -> None:
    decision = decide(AlarmEvent(LOW, "ALARM", NOW), ReplicaState(5, LIMITS, scheduled=DAY), NOW)

    assert decision.reason == "5 replicas is at or below MIN_REPLICAS 5 of the schedule day"


def test_before_the_first_schedule_the_plain_bounds_hold() -> None:
    assert ReplicaState(3, LIMITS).bounds == Bounds(2, 7)


def test_bounds_of_a_schedule_that_a_deployment_took_away_no_longer_hold() -> None:
    state = ReplicaState(3, LIMITS, scheduled=ScheduleEvent("gone", NOW))

    assert state.bounds == Bounds(2, 7)


def test_bounds_that_a_deployment_changed_hold_without_a_further_schedule() -> None:
    changed = Limits(2, 7, timedelta(0), HIGH, LOW, {"day": Bounds(6, 6)})

    decision = decide(AlarmEvent(HIGH, "ALARM", NOW), ReplicaState(6, changed, scheduled=DAY), NOW)

    assert decision.replicas == 6


def test_a_schedule_does_not_wait_for_the_cooldown_and_alarms_then_do() -> None:
    state = after(ReplicaState(3, LIMITS, last_scaled_at=NOW), DAY)

    decision = decide(AlarmEvent(HIGH, "ALARM", NOW), state, NOW + timedelta(seconds=599))

    assert state.replicas == 5
    assert "COOLDOWN_SECONDS" in decision.reason


def test_a_schedule_that_nobody_told_of_is_named_and_ignored() -> None:
    decision = decide(ScheduleEvent("gone", NOW), ReplicaState(3, LIMITS), NOW)

    assert (decision.action, decision.remember) == (Action.NONE, False)
    assert "gone is none of the schedules in SCHEDULES, which are day, night, event" in decision.reason


def test_what_was_put_to_rest_stays_there_and_its_bounds_are_remembered() -> None:
    state = after(ReplicaState(0, LIMITS), DAY)

    assert (state.replicas, state.scheduled) == (0, DAY)


@settings(deadline=None)
@given(events, st.integers(0, 12), st.none() | events)
def test_the_same_event_again_changes_nothing(
    event: ScheduleEvent, replicas: int, last: ScheduleEvent | None
) -> None:
    settled = after(ReplicaState(replicas, LIMITS, scheduled=last), event)

    replay = decide(event, settled, NOW)

    assert (replay.action, replay.remember) == (Action.NONE, False)


@settings(deadline=None)
@given(st.lists(events, max_size=4))
def test_the_bounds_in_the_end_do_not_depend_on_the_order_of_arrival(arrivals: list[ScheduleEvent]) -> None:
    """The latest moment holds; for the same moment the schedule further down."""
    ends = set()
    for order in permutations(arrivals):
        state = ReplicaState(4, LIMITS)
        for event in order:
            state = after(state, event)
        ends.add(state.scheduled)

    assert len(ends) == 1


@settings(deadline=None)
@given(st.lists(events, max_size=8), st.integers(1, 12))
def test_replicas_always_end_within_the_bounds_in_force(arrivals: list[ScheduleEvent], replicas: int) -> None:
    state = ReplicaState(replicas, LIMITS)
    for event in arrivals:
        state = after(state, event)

    if state.scheduled is not None:
        assert state.bounds.min_replicas <= state.replicas <= state.bounds.max_replicas


def test_an_event_of_a_schedule_names_it_and_its_moment() -> None:
    event = parse_event({"schedule": "day", "scheduledAt": "2026-12-01T06:30:00Z"})

    assert event == DAY


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"schedule": ""}, "schedule is ''; expected a text"),
        ({"schedule": 3}, "schedule is 3; expected a text"),
        ({"schedule": "day"}, "scheduledAt is None; expected a text"),
        ({"schedule": "day", "scheduledAt": "<aws.scheduler.scheduled-time>"}, "expected a time such as"),
        ({"schedule": "day", "scheduledAt": "2026-12-01T06:30:00"}, "expected a time such as"),
        ({"source": "aws.events"}, "alarmData .*Records .*or schedule"),
    ],
)
def test_an_event_that_is_no_schedule_s_is_named(event: object, message: str) -> None:
    with pytest.raises(EventError, match=message):
        parse_event(event)


def test_schedules_are_read_in_their_order() -> None:
    text = '[{"name":"day","min":5,"max":10},{"name":"night","min":1,"max":3}]'

    limits = read_limits({**ENVIRONMENT, "SCHEDULES": text})

    assert list(limits.schedules) == ["day", "night"]
    assert (limits.schedules["day"].min_replicas, limits.schedules["night"].max_replicas) == (5, 3)


def test_without_the_variable_there_are_no_schedules() -> None:
    assert read_limits(ENVIRONMENT).schedules == {}


@pytest.mark.parametrize(
    "text",
    [
        "day",
        "7",
        "[7]",
        '{"name": "day"}',
        '[{"name": "day", "min": 5}]',
        '[{"name": "day", "min": "5", "max": 7}]',
        '[{"name": "day", "min": true, "max": 7}]',
        '[{"name": "day", "min": 0, "max": 7}]',
        '[{"name": "day", "min": 8, "max": 7}]',
        '[{"name": "day", "min": 1, "max": 7}, {"name": "day", "min": 1, "max": 7}]',
    ],
)
def test_schedules_that_can_not_be_read_are_named(text: str) -> None:
    with pytest.raises(SettingError, match=r"SCHEDULES is .*; expected such as"):
        read_limits({**ENVIRONMENT, "SCHEDULES": text})
