"""Office hours that keep engines, and nights that may go to zero: which of the bounds let anybody sleep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fakes_kubernetes import Authority, KubernetesFake
from hypothesis import given
from hypothesis import strategies as st

from hypertier_lambdas.replicas.decision import Action, Bounds, Limits, ReplicaState, decide
from hypertier_lambdas.replicas.deployment import ASLEEP, IDLE
from hypertier_lambdas.replicas.errors import SettingError
from hypertier_lambdas.replicas.event import AlarmEvent, ScheduleEvent
from hypertier_lambdas.replicas.handler import apply
from hypertier_lambdas.replicas.kubernetes import KubernetesApi, tls_context
from hypertier_lambdas.replicas.settings import Settings, read_limits

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
KEY = ("inference", "llama-engine")
HIGH, LOW, SLEEP, WAKE = "high", "low", "sleep", "wake"
SCHEDULES = {"day": Bounds(2, 5, " of the schedule day"), "night": Bounds(0, 3)}
LIMITS = Limits(1, 4, timedelta(seconds=600), HIGH, LOW, SCHEDULES, SLEEP, WAKE)
LATELY = NOW - timedelta(minutes=2)
DAY, NIGHT = ScheduleEvent("day", NOW), ScheduleEvent("night", NOW)

Tell = Callable[..., dict[str, Any]]


def state(replicas: int, **changes: Any) -> ReplicaState:
    return ReplicaState(replicas, LIMITS, **changes)


@pytest.mark.parametrize(
    ("event", "before", "expected"),
    [
        pytest.param(NIGHT, state(2, idle=True), 0, id="idle when the night comes"),
        pytest.param(NIGHT, state(2), 2, id="asked when the night comes"),
        pytest.param(NIGHT, state(0, asleep=True), 0, id="asleep already"),
        pytest.param(NIGHT, state(2, idle=True, seen={WAKE: LATELY}), 2, id="held lately"),
        pytest.param(DAY, state(0, asleep=True), 2, id="asleep when the day comes"),
        pytest.param(DAY, state(0), 0, id="put to rest by hand"),
        pytest.param(DAY, state(3, idle=True), 3, id="idle by day"),
    ],
)
def test_a_schedule_lets_engines_go_only_where_its_least_is_zero_and_nobody_asks(
    event: ScheduleEvent, before: ReplicaState, expected: int
) -> None:
    decision = decide(event, before, NOW)

    assert (decision.replicas, decision.remember) == (expected, True)


@pytest.mark.parametrize(
    ("in_force", "alarm", "replicas", "expected"),
    [
        pytest.param(DAY, SLEEP, 2, 2, id="nobody sleeps by day"),
        pytest.param(NIGHT, SLEEP, 2, 0, id="by night they may"),
        pytest.param(None, SLEEP, 2, 2, id="the plain bounds keep one"),
        pytest.param(NIGHT, WAKE, 0, 1, id="woken by night"),
        pytest.param(DAY, WAKE, 0, 2, id="woken to the least of the day"),
        pytest.param(NIGHT, LOW, 1, 1, id="an idle cache alone takes no last replica"),
    ],
)
def test_alarms_keep_to_the_least_of_the_schedule_in_force(
    in_force: ScheduleEvent | None, alarm: str, replicas: int, expected: int
) -> None:
    before = state(replicas, scheduled=in_force, asleep=not replicas)

    assert decide(AlarmEvent(alarm, "ALARM", NOW), before, NOW).replicas == expected


@given(
    st.builds(AlarmEvent, st.sampled_from([HIGH, LOW, SLEEP, WAKE]), st.just("ALARM"), st.just(NOW))
    | st.sampled_from([DAY, NIGHT]),
    st.integers(0, 6),
    st.sampled_from([None, "day", "night"]),
    st.booleans(),
    st.booleans(),
)
def test_nothing_but_bounds_of_zero_ever_leaves_nobody(
    event: AlarmEvent | ScheduleEvent, replicas: int, in_force: str | None, idle: bool, asleep: bool
) -> None:
    last = ScheduleEvent(in_force, NOW - timedelta(hours=12)) if in_force else None
    before = state(replicas, scheduled=last, idle=idle, asleep=asleep and not replicas)

    decision = decide(event, before, NOW)

    least = SCHEDULES[event.schedule] if isinstance(event, ScheduleEvent) else before.bounds
    assert decision.replicas > 0 or replicas == 0 or least.min_replicas == 0
    assert decision.replicas == 0 or replicas > 0 or before.asleep


def test_without_schedules_to_zero_an_alarm_that_is_over_is_remembered_by_nobody() -> None:
    limits = Limits(1, 3, timedelta(), HIGH, LOW)

    decision = decide(AlarmEvent(LOW, "OK", NOW), ReplicaState(2, limits), NOW)

    assert (decision.action, decision.remember) == (Action.NONE, False)


@pytest.fixture
def cluster(kubernetes: KubernetesFake) -> KubernetesFake:
    kubernetes.create_deployment(*KEY, replicas=2)
    return kubernetes


@pytest.fixture
def tell(cluster: KubernetesFake, authority: Authority) -> Tell:
    """Tells the hook of an alarm or a schedule, so many hours later, and returns how many there are then."""
    settings = Settings("hyperpod", *KEY, LIMITS, dry_run=False)

    def told(name: str, hours: float, to: str = "ALARM") -> int:
        now = NOW + timedelta(hours=hours)
        event: dict[str, Any] = {"schedule": name, "scheduledAt": now.isoformat()}
        if name not in SCHEDULES:
            event = {"alarmData": {"alarmName": name, "state": {"value": to, "timestamp": now.isoformat()}}}
        api = KubernetesApi(cluster.endpoint, tls_context(authority.pem), "token", lambda: 30.0)
        apply(event, settings, lambda *_: api, now, lambda: 30.0, {})
        replicas: int = cluster.deployments[KEY]["spec"]["replicas"]
        return replicas

    return told


def test_two_days_keep_two_engines_and_each_night_goes_to_zero_once_nobody_asks(
    cluster: KubernetesFake, tell: Tell
) -> None:
    first = [tell("day", 0), tell(SLEEP, 8), tell("night", 10)]  # idle since before the night
    woken = [tell(SLEEP, 10.1, "OK"), tell(WAKE, 12), tell(SLEEP, 13)]
    second = [tell("day", 20), tell(SLEEP, 20.5, "OK"), tell("night", 32), tell(SLEEP, 33)]

    assert first == [2, 2, 0]
    assert woken == [0, 1, 0]
    assert second == [2, 2, 2, 0]
    assert ASLEEP in cluster.deployments[KEY]["metadata"]["annotations"]


def test_who_was_woken_is_not_put_to_sleep_by_an_alarm_of_before(cluster: KubernetesFake, tell: Tell) -> None:
    seen = [tell("night", 0), tell(SLEEP, 1), tell(WAKE, 2), tell("night", 3)]

    assert seen == [2, 0, 1, 1]
    assert IDLE not in cluster.deployments[KEY]["metadata"]["annotations"]


def test_an_alarm_s_end_that_comes_late_does_not_undo_its_next_beginning(
    cluster: KubernetesFake, tell: Tell
) -> None:
    seen = [tell("day", 0), tell(SLEEP, 3), tell(SLEEP, 2, "OK"), tell("night", 4)]

    assert seen == [2, 2, 2, 0]


def test_a_night_of_zero_takes_the_two_alarms() -> None:
    told = {
        "MIN_REPLICAS": "1",
        "MAX_REPLICAS": "4",
        "HIGH_ALARM": HIGH,
        "LOW_ALARM": LOW,
        "SCHEDULES": '[{"name":"night","min":0,"max":3}]',
    }

    read = read_limits(told | {"SLEEP_ALARM": SLEEP, "WAKE_ALARM": WAKE})

    assert (read.min_replicas, read.schedules["night"].min_replicas) == (1, 0)
    assert replace(read, schedules={}) == replace(LIMITS, schedules={})
    with pytest.raises(SettingError, match=r"SCHEDULES is .*, 1 <= min <= max"):
        read_limits(told)
