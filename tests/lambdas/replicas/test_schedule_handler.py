"""A schedule's event against Kubernetes' stand-in, by TLS: one write for bounds and replicas alike."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fakes_kubernetes import Authority, KubernetesFake

from hypertier_lambdas.replicas.__main__ import main
from hypertier_lambdas.replicas.decision import Bounds, Limits
from hypertier_lambdas.replicas.deployment import (
    HIGH_ALARM_SEEN,
    LAST_REASON,
    LAST_SCALED_AT,
    SCHEDULE,
    SCHEDULED_AT,
)
from hypertier_lambdas.replicas.errors import ClusterError, StateError
from hypertier_lambdas.replicas.handler import apply
from hypertier_lambdas.replicas.kubernetes import KubernetesApi, tls_context
from hypertier_lambdas.replicas.settings import Settings

EVENTS = Path(__file__).parents[2] / "events"
OFFICE_HOURS = json.loads((EVENTS / "schedule.json").read_text(encoding="utf-8"))
EVENING = {"schedule": "evening", "scheduledAt": "2026-12-01T18:00:00Z"}
HIGH_EVENT = json.loads((EVENTS / "cloudwatch-alarm-high.json").read_text(encoding="utf-8"))
KEY = ("inference", "contracts-engine")
NOW = datetime(2026, 12, 1, 6, 30, 20, tzinfo=UTC)
SCHEDULES = {"office-hours": Bounds(5, 9, " of the schedule office-hours"), "evening": Bounds(2, 4)}
LIMITS = Limits(2, 7, timedelta(seconds=600), "contracts-l1-high", "contracts-l1-low", SCHEDULES)
SETTINGS = Settings("hyperpod", *KEY, LIMITS, dry_run=False)

Apply = Callable[..., dict[str, Any]]


@pytest.fixture
def cluster(kubernetes: KubernetesFake) -> KubernetesFake:
    kubernetes.create_deployment(*KEY, replicas=3)
    return kubernetes


@pytest.fixture
def tell(cluster: KubernetesFake, authority: Authority) -> Apply:
    """Applies an event to the cluster and returns its line."""

    def told(event: Any, settings: Settings = SETTINGS, now: datetime = NOW) -> dict[str, Any]:
        line: dict[str, Any] = {}
        apply(
            event,
            settings,
            lambda _, remaining: KubernetesApi(
                cluster.endpoint, tls_context(authority.pem), "token", remaining
            ),
            now,
            lambda: 30.0,
            line,
        )
        return line

    return told


def deployment(cluster: KubernetesFake) -> dict[str, Any]:
    return cluster.deployments[KEY]


def test_a_schedule_s_bounds_and_the_replicas_that_follow_are_one_write(
    cluster: KubernetesFake, tell: Apply
) -> None:
    line = tell(OFFICE_HOURS)

    assert line == {
        "schedule": "office-hours",
        "scheduled_at": "2026-12-01T06:30:00+00:00",
        "cluster": "hyperpod",
        "deployment": "inference/contracts-engine",
        "dry_run": False,
        "action": "up",
        "replicas_before": 3,
        "replicas": 5,
        "reason": "office-hours sets 5 to 9 replicas: up from 3 to 5",
        "attempts": 1,
    }
    assert [method for method, _ in cluster.requests] == ["GET", "PATCH"]
    assert deployment(cluster)["spec"]["replicas"] == 5
    annotations = deployment(cluster)["metadata"]["annotations"]
    assert annotations[SCHEDULE] == "office-hours"
    assert annotations[SCHEDULED_AT] == "2026-12-01T06:30:00+00:00"
    assert annotations[LAST_SCALED_AT] == NOW.isoformat()
    assert annotations[LAST_REASON] == line["reason"]


def test_later_alarms_step_within_the_bounds_that_a_schedule_set(
    cluster: KubernetesFake, tell: Apply
) -> None:
    tell(OFFICE_HOURS)
    cluster.patch(*KEY, {"spec": {"replicas": 7}})

    line = tell(HIGH_EVENT, now=NOW + timedelta(hours=1))

    assert (line["action"], line["replicas"]) == ("up", 8)
    assert deployment(cluster)["metadata"]["annotations"][SCHEDULE] == "office-hours"
    assert HIGH_ALARM_SEEN in deployment(cluster)["metadata"]["annotations"]


def test_the_next_schedule_ends_the_last_one_s_bounds(cluster: KubernetesFake, tell: Apply) -> None:
    tell(OFFICE_HOURS)

    line = tell(EVENING, now=NOW + timedelta(hours=12))

    assert (line["action"], deployment(cluster)["spec"]["replicas"]) == ("down", 4)


def test_an_event_that_comes_again_or_late_writes_nothing(cluster: KubernetesFake, tell: Apply) -> None:
    tell(OFFICE_HOURS)
    tell(EVENING, now=NOW + timedelta(hours=12))
    version = deployment(cluster)["metadata"]["resourceVersion"]

    lines = [tell(event, now=NOW + timedelta(hours=13)) for event in (EVENING, OFFICE_HOURS)]

    assert [line["action"] for line in lines] == ["none", "none"]
    assert deployment(cluster)["metadata"]["resourceVersion"] == version


def test_a_schedule_that_finds_its_bounds_kept_is_remembered_without_a_step(
    cluster: KubernetesFake, tell: Apply
) -> None:
    line = tell(EVENING)

    assert line["action"] == "none"
    annotations = deployment(cluster)["metadata"]["annotations"]
    assert annotations[SCHEDULE] == "evening"
    assert LAST_SCALED_AT not in annotations
    assert deployment(cluster)["spec"]["replicas"] == 3


def test_dry_run_says_what_a_schedule_would_do_and_writes_nothing(
    cluster: KubernetesFake, tell: Apply
) -> None:
    line = tell(OFFICE_HOURS, replace(SETTINGS, dry_run=True))

    assert (line["action"], line["replicas"], line["dry_run"]) == ("up", 5, True)
    assert [method for method, _ in cluster.requests] == ["GET"]


def test_a_schedule_and_an_alarm_at_once_are_decided_on_one_after_the_other(
    cluster: KubernetesFake, tell: Apply
) -> None:
    def the_alarm_comes_first() -> None:
        cluster.before_patch = lambda: None
        tell(HIGH_EVENT)

    cluster.before_patch = the_alarm_comes_first

    line = tell(OFFICE_HOURS)

    assert (line["replicas_before"], line["replicas"], line["attempts"]) == (4, 5, 2)


def test_a_schedule_that_the_cluster_refuses_is_an_error_for_lambda_to_try_again(
    cluster: KubernetesFake, tell: Apply
) -> None:
    cluster.refuse = {"PATCH": 403}

    with pytest.raises(ClusterError):
        tell(OFFICE_HOURS)

    assert SCHEDULE not in deployment(cluster)["metadata"]["annotations"]


def test_a_moment_that_the_hook_did_not_write_is_named_with_its_remedy(
    cluster: KubernetesFake, tell: Apply
) -> None:
    cluster.patch(*KEY, {"metadata": {"annotations": {SCHEDULE: "evening", SCHEDULED_AT: "soon"}}})

    with pytest.raises(StateError, match=f"contracts-engine -n inference {SCHEDULED_AT}-"):
        tell(HIGH_EVENT)


def test_the_local_runner_says_what_a_schedule_would_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"MIN_REPLICAS": "2", "MAX_REPLICAS": "7", "HIGH_ALARM": "high", "LOW_ALARM": "low"}
    bounds = [{"name": "office-hours", "min": 5, "max": 7}]
    for name, value in {**environment, "SCHEDULES": json.dumps(bounds)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(OFFICE_HOURS)))

    code = main(["--replicas", "3"])

    line = json.loads(capsys.readouterr().out)
    assert (code, line["schedule"], line["action"], line["replicas"]) == (0, "office-hours", "up", 5)
