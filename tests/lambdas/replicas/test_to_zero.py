"""To no replica and back: what the two further alarms do, and who else may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fakes_kubernetes import Authority, KubernetesFake
from hypothesis import given
from hypothesis import strategies as st

from hypertier_lambdas.replicas.decision import Action, Bounds, Limits, ReplicaState, decide
from hypertier_lambdas.replicas.deployment import ASLEEP
from hypertier_lambdas.replicas.errors import SettingError
from hypertier_lambdas.replicas.event import AlarmEvent
from hypertier_lambdas.replicas.handler import apply
from hypertier_lambdas.replicas.kubernetes import KubernetesApi, tls_context
from hypertier_lambdas.replicas.settings import Settings, read_limits

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
KEY = ("inference", "llama-engine")
HIGH, LOW, SLEEP, WAKE = "high", "low", "sleep", "wake"
LIMITS = Limits(0, 3, timedelta(seconds=600), HIGH, LOW, sleep_alarm=SLEEP, wake_alarm=WAKE)
SETTINGS = Settings("hyperpod", *KEY, LIMITS, dry_run=False)


def rings(alarm: str, at: datetime = NOW) -> AlarmEvent:
    return AlarmEvent(alarm, "ALARM", at)


@pytest.mark.parametrize(
    ("alarm", "state", "expected"),
    [
        pytest.param(SLEEP, ReplicaState(3, LIMITS), 0, id="from however many"),
        pytest.param(SLEEP, ReplicaState(2, LIMITS, NOW), 0, id="within the cooldown"),
        pytest.param(WAKE, ReplicaState(0, LIMITS, NOW, asleep=True), 1, id="woken within the cooldown"),
        pytest.param(WAKE, ReplicaState(0, LIMITS), 0, id="put to rest by hand"),
        pytest.param(WAKE, ReplicaState(1, LIMITS), 1, id="awake already"),
        pytest.param(HIGH, ReplicaState(0, LIMITS, asleep=True), 0, id="asleep, and an old alarm"),
        pytest.param(LOW, ReplicaState(1, LIMITS), 1, id="an idle cache alone takes no last replica"),
        pytest.param(SLEEP, ReplicaState(2, replace(LIMITS, min_replicas=1)), 2, id="bounds that forbid it"),
    ],
)
def test_the_last_replica_goes_and_comes_by_its_own_alarms(
    alarm: str, state: ReplicaState, expected: int
) -> None:
    assert decide(rings(alarm), state, NOW).replicas == expected


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        pytest.param(0, 2, id="at once"),
        pytest.param(2.9, 2, id="before the data can tell"),
        pytest.param(5, 0, id="after the shortest time without a request"),
        pytest.param(-1, 2, id="held after the alarm rang, whose event comes late"),
    ],
)
def test_nobody_sleeps_over_a_request_of_which_the_alarm_cannot_know(minutes: float, expected: int) -> None:
    awake = decide(rings(WAKE), ReplicaState(2, LIMITS), NOW)
    state = ReplicaState(2, LIMITS, seen={WAKE: NOW})

    decision = decide(rings(SLEEP, NOW + timedelta(minutes=minutes)), state, NOW)

    assert awake.remember  # that is how the other one knows
    assert decision.replicas == expected


@given(st.sampled_from([HIGH, LOW, SLEEP, WAKE]), st.integers(0, 5), st.booleans())
def test_only_the_sleep_alarm_leaves_nobody_and_only_who_sleeps_is_woken(
    alarm: str, replicas: int, asleep: bool
) -> None:
    decision = decide(rings(alarm), ReplicaState(replicas, LIMITS, asleep=asleep and not replicas), NOW)

    if replicas and not decision.replicas:
        assert alarm == SLEEP
    if decision.replicas and not replicas:
        assert alarm == WAKE
        assert asleep


def test_without_the_two_alarms_their_names_are_strangers() -> None:
    limits = Limits(1, 3, timedelta(), HIGH, LOW)

    decision = decide(rings(SLEEP), ReplicaState(2, limits), NOW)

    assert (decision.action, decision.remember) == (Action.NONE, False)


def applier(cluster: KubernetesFake, authority: Authority) -> Callable[[str, datetime], dict[str, Any]]:
    def told(alarm: str, now: datetime) -> dict[str, Any]:
        line: dict[str, Any] = {}
        event = {"alarmData": {"alarmName": alarm, "state": {"value": "ALARM", "timestamp": now.isoformat()}}}
        api = KubernetesApi(cluster.endpoint, tls_context(authority.pem), "token", lambda: 30.0)
        apply(event, SETTINGS, lambda *_: api, now, lambda: 30.0, line)
        return line

    return told


def test_a_night_is_slept_through_and_a_person_s_rest_is_not_ended(
    authority: Authority, tmp_path: Path
) -> None:
    with KubernetesFake(authority.server_context(tmp_path)) as cluster:
        cluster.create_deployment(*KEY, replicas=2)
        tell = applier(cluster, authority)
        deployment = cluster.deployments[KEY]
        seen = []
        for hours, alarm in enumerate((SLEEP, WAKE, SLEEP)):
            tell(alarm, NOW + timedelta(hours=hours))
            deployment = cluster.deployments[KEY]
            seen.append((deployment["spec"]["replicas"], ASLEEP in deployment["metadata"]["annotations"]))
        tell(WAKE, NOW + timedelta(hours=4))
        cluster.patch(*KEY, {"spec": {"replicas": 0}})  # by hand
        line = tell(WAKE, NOW + timedelta(hours=5))

        assert seen == [(0, True), (1, False), (0, True)]
        assert cluster.deployments[KEY]["spec"]["replicas"] == 0
        assert "put to rest by hand" in line["reason"]


ENVIRONMENT = {"HIGH_ALARM": HIGH, "LOW_ALARM": LOW, "MAX_REPLICAS": "3"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"MIN_REPLICAS": "0"}, "MIN_REPLICAS", id="nobody to put it to sleep"),
        pytest.param({"MIN_REPLICAS": "0", "SLEEP_ALARM": SLEEP}, "WAKE_ALARM", id="nobody to wake it"),
        pytest.param({"MIN_REPLICAS": "1", "WAKE_ALARM": WAKE}, "SLEEP_ALARM", id="nothing to be woken from"),
    ],
)
def test_zero_takes_both_alarms(changes: dict[str, str], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        read_limits(ENVIRONMENT | changes)


def test_bounds_are_zero_to_the_maximum() -> None:
    read = read_limits(ENVIRONMENT | {"MIN_REPLICAS": "0", "SLEEP_ALARM": SLEEP, "WAKE_ALARM": WAKE})

    assert ReplicaState(0, read).bounds == Bounds(0, 3)
