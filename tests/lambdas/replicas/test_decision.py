from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier_lambdas.replicas.decision import Action, Decision, Limits, ReplicaState, decide
from hypertier_lambdas.replicas.event import ALARM_STATES, AlarmEvent

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
HIGH, LOW = "l1-high", "l1-low"
LIMITS = Limits(2, 7, timedelta(seconds=600), HIGH, LOW)

instants = st.integers(-7200, 7200).map(lambda seconds: NOW + timedelta(seconds=seconds))


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    minimum = draw(st.integers(1, 8))
    cooldown = timedelta(seconds=draw(st.integers(0, 3600)))
    return Limits(minimum, minimum + draw(st.integers(0, 8)), cooldown, HIGH, LOW)


events = st.builds(
    AlarmEvent, st.sampled_from([HIGH, LOW, "another"]), st.sampled_from(ALARM_STATES), instants, st.text()
)
states = st.builds(
    ReplicaState,
    st.integers(0, 20),
    limits(),
    st.none() | instants,
    st.dictionaries(st.sampled_from([HIGH, LOW]), instants),
)


def after(state: ReplicaState, event: AlarmEvent, decision: Decision, now: datetime) -> ReplicaState:
    """The state that the Deployment holds once `decision` is written."""
    scaled = now if decision.action is not Action.NONE else state.last_scaled_at
    seen = dict(state.seen)
    if decision.remember:
        seen[event.alarm_name] = event.transitioned_at
    return ReplicaState(decision.replicas, state.limits, scaled, seen)


@settings(deadline=None)
@given(events, states, instants)
def test_a_step_never_leaves_the_limits_and_always_has_a_reason(
    event: AlarmEvent, state: ReplicaState, now: datetime
) -> None:
    decision = decide(event, state, now)

    assert decision.reason
    if decision.action is Action.NONE:
        assert decision.replicas == state.replicas
    else:
        assert state.limits.min_replicas <= decision.replicas <= state.limits.max_replicas
        assert (decision.replicas > state.replicas) == (decision.action is Action.UP)


@settings(deadline=None)
@given(events, states, instants, instants)
def test_the_same_transition_again_changes_nothing_whenever_it_comes(
    event: AlarmEvent, state: ReplicaState, now: datetime, later: datetime
) -> None:
    settled = after(state, event, decide(event, state, now), now)

    replay = decide(event, settled, later)

    assert replay.action is Action.NONE
    assert after(settled, event, replay, later) == settled


@settings(deadline=None)
@given(st.lists(st.tuples(events, instants), max_size=30), states)
def test_two_steps_are_never_closer_than_the_cooldown(
    arrivals: list[tuple[AlarmEvent, datetime]], state: ReplicaState
) -> None:
    steps = [state.last_scaled_at] if state.last_scaled_at else []

    for event, now in sorted(arrivals, key=lambda arrival: arrival[1]):
        decision = decide(event, state, now)
        if decision.action is not Action.NONE:
            steps.append(now)
        state = after(state, event, decision, now)

    assert all(b - a >= state.limits.cooldown for a, b in pairwise(steps))


@pytest.mark.parametrize(
    ("alarm", "replicas", "expected"),
    [
        pytest.param(HIGH, 3, 4, id="high: one more"),
        pytest.param(LOW, 3, 2, id="low: one less"),
        pytest.param(HIGH, 7, 7, id="high at the maximum"),
        pytest.param(LOW, 2, 2, id="low at the minimum"),
        pytest.param(HIGH, 9, 9, id="high above the maximum never takes replicas away"),
        pytest.param(LOW, 9, 7, id="low above the maximum comes back to it"),
        pytest.param(HIGH, 1, 2, id="high below the minimum comes up to it"),
        pytest.param(LOW, 1, 1, id="low below the minimum never adds replicas"),
        pytest.param(HIGH, 0, 0, id="put to rest by hand"),
    ],
)
def test_an_alarm_asks_for_one_step_within_the_limits(alarm: str, replicas: int, expected: int) -> None:
    decision = decide(AlarmEvent(alarm, "ALARM", NOW), ReplicaState(replicas, LIMITS), NOW)

    assert decision.replicas == expected


def test_a_step_is_due_as_soon_as_the_cooldown_is_over() -> None:
    state = ReplicaState(3, LIMITS, NOW - LIMITS.cooldown)

    decision = decide(AlarmEvent(HIGH, "ALARM", NOW), state, NOW)

    assert decision.action is Action.UP


def test_a_transition_within_the_cooldown_is_not_kept_for_later() -> None:
    event = AlarmEvent(HIGH, "ALARM", NOW)
    state = ReplicaState(3, LIMITS, NOW - timedelta(seconds=599))

    decision = decide(event, state, NOW)

    assert decision.action is Action.NONE
    assert decision.remember
    assert "COOLDOWN_SECONDS 600" in decision.reason


def test_an_older_transition_that_arrives_late_changes_nothing() -> None:
    state = ReplicaState(3, LIMITS, seen={HIGH: NOW})

    decision = decide(AlarmEvent(HIGH, "ALARM", NOW - timedelta(minutes=1)), state, NOW + timedelta(hours=1))

    assert decision.action is Action.NONE
    assert "not newer" in decision.reason


@pytest.mark.parametrize("state", ["OK", "INSUFFICIENT_DATA"])
def test_only_the_state_alarm_asks_for_a_step(state: str) -> None:
    decision = decide(AlarmEvent(HIGH, state, NOW), ReplicaState(3, LIMITS), NOW)

    assert decision == Decision(Action.NONE, 3, decision.reason, remember=False)


def test_an_alarm_of_another_hook_is_named_and_ignored() -> None:
    decision = decide(AlarmEvent("disk-full", "ALARM", NOW), ReplicaState(3, LIMITS), NOW)

    assert decision.action is Action.NONE
    assert "disk-full is neither the high alarm l1-high nor the low alarm l1-low" in decision.reason
