"""Bounds of the replicas that a schedule sets: `scaling.schedules` of a deployment file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hypertier.errors import ConfigError
from hypertier.spec.cron import AT_FORM, CRON_FORM, TIME_ZONE_FORM, is_cron, is_moment, is_time_zone
from hypertier.spec.keywords import named_fields
from hypertier.spec.unique import check_unique

MAX_SCHEDULES = 20  # their bounds stand in the function's environment, of 4 KB in all
NAME = re.compile(r"[a-z](-?[a-z0-9]){0,31}")
NAME_FORM = "a lower-case letter, then lower-case letters, digits and single hyphens, 32 at most"
SETTING = "scaling.schedules"


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSchedule:
    """Other bounds from a moment on: again and again by `cron`, or once `at` a moment, in `time_zone`.

    A bound that is left out is the plain one, `scaling.min` or `scaling.max`. With 0 for `min_replicas` none
    is left while nobody asks.
    """

    name: str
    cron: str | None = None
    at: str | None = None
    time_zone: str = "UTC"
    min_replicas: int | None = None
    max_replicas: int | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError(f"{SETTING}.{self.name}.name", self.name, NAME_FORM)
        if (self.cron is None) == (self.at is None):
            given = None if self.cron is None else {"cron": self.cron, "at": self.at}
            raise ConfigError(f"{SETTING}.{self.name}.cron", given, "a value, or one for at, and not both")
        for key, text, fits, form in (
            ("cron", self.cron, is_cron, CRON_FORM),
            ("at", self.at, is_moment, AT_FORM),
            ("timeZone", self.time_zone, is_time_zone, TIME_ZONE_FORM),
        ):
            if text is not None and not fits(text):
                raise ConfigError(f"{SETTING}.{self.name}.{key}", text, form)
        low, high = self.min_replicas, self.max_replicas
        if low is None and high is None:
            raise ConfigError(f"{SETTING}.{self.name}.minReplicas", None, "a value, or one for maxReplicas")
        if low is not None and low < 0:
            expected = "0 or more; 0 lets engines go while nobody asks"
            raise ConfigError(f"{SETTING}.{self.name}.minReplicas", low, expected)
        if high is not None and high < 1:
            expected = "1 or more; minReplicas: 0 lets engines go while nobody asks"
            raise ConfigError(f"{SETTING}.{self.name}.maxReplicas", high, expected)

    @property
    def expression(self) -> str:
        """When, as EventBridge Scheduler takes it."""
        return self.cron if self.cron is not None else f"at({self.at})"

    def bounds(self, least: int, most: int) -> tuple[int, int]:
        """The bounds that it sets where `least` and `most` are the plain ones."""
        low = least if self.min_replicas is None else self.min_replicas
        return low, most if self.max_replicas is None else self.max_replicas


def check_served(schedules: Sequence[ScalingSchedule], serving: str) -> None:
    """Refuse schedules where nobody reads them.

    Raises:
        ConfigError: names them.
    """
    if schedules and serving == "operator":
        raise ConfigError(
            SETTING,
            [schedule.name for schedule in schedules],
            "none with serving: operator, whose endpoints scale by the autoScalingSpec of their manifests",
        )


def check_schedules(schedules: Sequence[ScalingSchedule], least: int, most: int) -> None:
    """Refuse schedules that contradict themselves, one another or the plain bounds.

    Raises:
        ConfigError: names the schedule and what it says.
    """
    if len(schedules) > MAX_SCHEDULES:
        raise ConfigError(SETTING, f"{len(schedules)} schedules", f"at most {MAX_SCHEDULES}")
    check_unique(SETTING, (schedule.name for schedule in schedules))
    moments: dict[tuple[str, str], str] = {}
    for schedule in schedules:
        low, high = schedule.bounds(least, most)
        if low > high:
            if schedule.max_replicas is None:
                raise ConfigError(
                    f"{SETTING}.{schedule.name}.minReplicas", low, f"at most scaling.max, which is {most}"
                )
            plain = "scaling.min" if schedule.min_replicas is None else "minReplicas"
            raise ConfigError(
                f"{SETTING}.{schedule.name}.maxReplicas", high, f"at least {plain}, which is {low}"
            )
        when = (schedule.expression.upper(), schedule.time_zone)
        if when in moments:
            key = "cron" if schedule.cron is not None else "at"
            raise ConfigError(
                f"{SETTING}.{schedule.name}.{key}",
                schedule.cron or schedule.at,
                f"other moments than those of {moments[when]}, whose bounds would be undone at once",
            )
        moments[when] = schedule.name
