"""Schedules: what EventBridge Scheduler takes, and bounds that contradict nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hypertier.errors import ConfigError
from hypertier.spec.cron import is_cron, is_moment, is_time_zone
from hypertier.spec.deployment import Scaling
from hypertier.spec.schedules import MAX_SCHEDULES, ScalingSchedule

MORNING = "cron(30 7 ? * MON-FRI *)"


def schedule(name: str = "day", **fields: Any) -> ScalingSchedule:
    return ScalingSchedule(**{"name": name, "cron": MORNING, "min_replicas": 2, **fields})


@pytest.mark.parametrize(
    "text",
    [
        "cron(30 7 ? * MON-FRI *)",
        "cron(0/15 8-18 1,15 * ? *)",
        "cron(0 8 L JAN,jul ? 2027-2029)",
        "cron(0 8 15W * ? *)",
        "cron(0 8 LW * ? *)",
        "cron(0 8 ? 3/2 2#1 *)",
        "cron(*/5 * ? * 6L *)",
        "cron(0 8 ? * FRI-MON *)",
    ],
)
def test_what_eventbridge_takes_is_taken(text: str) -> None:
    assert is_cron(text)


@pytest.mark.parametrize(
    "text",
    [
        "0 8 ? * MON-FRI *",
        "cron(0 8 * * MON-FRI)",
        "cron(0 8 * * MON *)",
        "cron(0 8 ? * ? *)",
        "cron(0 8 1 * MON *)",
        "cron(60 8 ? * MON *)",
        "cron(0 24 ? * MON *)",
        "cron(0 8 0 * ? *)",
        "cron(0 8 32W * ? *)",
        "cron(0 8 ? 13 MON *)",
        "cron(0 8 ? * MON#6 *)",
        "cron(0 8 ? * 8 *)",
        "cron(0 8 ? * MON 1969)",
        "cron(0/0 8 ? * MON *)",
        "cron(18-8 8 ? * MON *)",
        "cron(0,,5 8 ? * MON *)",
        "cron(? 8 ? * MON *)",
        "cron(0  8 ? * MON *)",
        "rate(5 minutes)",
        f"cron(0 8 ? * {','.join(['MON'] * 80)} *)",
        "cron(٣ 8 ? * MON *)",
        "",
    ],
)
def test_what_eventbridge_would_refuse_is_refused(text: str) -> None:
    assert not is_cron(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2027-03-01T08:00:00", True),
        ("2027-02-29T08:00:00", False),
        ("2027-03-01T08:00", False),
        ("2027-03-01", False),
        ("2027-03-01T08:00:00Z", False),
        ("2027-03-01T08:00:00+01:00", False),
        ("tomorrow", False),
    ],
)
def test_a_moment_has_seconds_and_no_zone(text: str, expected: bool) -> None:
    assert is_moment(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Europe/Berlin", True), ("UTC", True), ("Europe/Berlim", False), ("+01:00", False), ("", False)],
)
def test_a_time_zone_is_one_of_iana_s(text: str, expected: bool) -> None:
    assert is_time_zone(text) is expected


def test_where_the_machine_knows_no_time_zones_their_form_alone_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hypertier.spec.cron.available_timezones", set)

    assert is_time_zone("America/Argentina/Buenos_Aires")
    assert is_time_zone("Etc/GMT+5")
    assert not is_time_zone("Europe / Berlin")


def test_a_bound_that_is_left_out_is_the_plain_one() -> None:
    assert schedule(min_replicas=3).bounds(1, 7) == (3, 7)
    assert schedule(min_replicas=None, max_replicas=3).bounds(2, 7) == (2, 3)


def test_a_moment_is_told_as_eventbridge_takes_it() -> None:
    assert schedule(cron=None, at="2027-03-01T08:00:00").expression == "at(2027-03-01T08:00:00)"
    assert schedule().expression == MORNING


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "Day"}, r"scaling\.schedules\.Day\.name is 'Day'; expected a lower-case letter"),
        ({"cron": None}, r"scaling\.schedules\.day\.cron is not set; expected a value, or one for at"),
        ({"at": "2027-03-01T08:00:00"}, r"scaling\.schedules\.day\.cron is .*, and not both"),
        ({"cron": "0 8"}, r"scaling\.schedules\.day\.cron is '0 8'; expected six fields"),
        ({"cron": None, "at": "8"}, r"scaling\.schedules\.day\.at is '8'; expected a moment"),
        ({"time_zone": "CEST"}, r"scaling\.schedules\.day\.timeZone is 'CEST'; expected an IANA"),
        ({"min_replicas": None}, r"scaling\.schedules\.day\.minReplicas is not set; expected a value"),
        ({"min_replicas": -1}, r"scaling\.schedules\.day\.minReplicas is -1; expected 0 or more"),
        ({"max_replicas": 0}, r"scaling\.schedules\.day\.maxReplicas is 0; expected 1 or more"),
    ],
)
def test_a_schedule_that_can_not_work_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        schedule(**fields)


@pytest.mark.parametrize(
    ("schedules", "message"),
    [
        ([schedule(min_replicas=8)], r"day\.minReplicas is 8; expected at most scaling\.max, which is 7"),
        (
            [schedule(min_replicas=None, max_replicas=1)],
            r"day\.maxReplicas is 1; expected at least scaling\.min, which is 2",
        ),
        (
            [schedule(min_replicas=5, max_replicas=4)],
            r"day\.maxReplicas is 4; expected at least minReplicas, which is 5",
        ),
        ([schedule(), schedule()], r"scaling\.schedules is .*; expected each name once"),
        (
            [schedule(), schedule("other", cron="cron(30 7 ? * mon-fri *)")],
            r"other\.cron is .* expected other moments than those of day",
        ),
        (
            [
                schedule("a", cron=None, at="2027-03-01T08:00:00"),
                schedule("b", cron=None, at="2027-03-01T08:00:00"),
            ],
            r"b\.at is '2027-03-01T08:00:00'; expected other moments than those of a",
        ),
        (
            [schedule(f"s{n}", cron=f"cron({n} 8 ? * MON *)") for n in range(MAX_SCHEDULES + 1)],
            r"scaling\.schedules is '21 schedules'; expected at most 20",
        ),
    ],
)
def test_bounds_that_contradict_are_refused(schedules: list[ScalingSchedule], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Scaling(min=2, max=7, schedules=tuple(schedules))


def test_the_same_hour_of_two_time_zones_is_two_moments() -> None:
    scaling = Scaling(min=2, max=7, schedules=(schedule(), schedule("other", time_zone="Asia/Seoul")))

    assert len(scaling.schedules) == 2


def test_a_schedule_may_leave_the_plain_bounds_on_both_sides() -> None:
    scaling = Scaling(min=2, max=7, schedules=(schedule(min_replicas=1, max_replicas=9),))

    assert scaling.least() == 1
    assert scaling.is_stepped()


@pytest.mark.parametrize(
    ("scaling", "stepped"),
    [
        (Scaling(), False),
        (Scaling(min=2, max=2), False),
        (Scaling(min=2, max=3), True),
        (Scaling(min=2, max=2, schedules=(schedule(),)), True),
    ],
)
def test_the_hook_is_there_where_bounds_leave_room_or_change(scaling: Scaling, stepped: bool) -> None:
    assert scaling.is_stepped() is stepped
