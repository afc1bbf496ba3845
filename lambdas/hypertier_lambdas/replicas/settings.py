"""What the function is told through its environment, checked before anything else is done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .decision import Bounds, Limits
from .errors import SettingError

VARIABLES = {
    "CLUSTER_NAME": "name of the EKS cluster",
    "NAMESPACE": "Kubernetes namespace of the Deployment",
    "DEPLOYMENT": "name of the Deployment whose replicas are stepped",
    "MIN_REPLICAS": "never fewer than this; 0 with SLEEP_ALARM, else 1 or more",
    "MAX_REPLICAS": "never more than this; MIN_REPLICAS or more, and 1 or more",
    "COOLDOWN_SECONDS": "seconds between two steps; default 600",
    "HIGH_ALARM": "name of the alarm that asks for one replica more",
    "LOW_ALARM": "name of the alarm that asks for one replica less",
    "SLEEP_ALARM": "name of the alarm that asks for no replica; default none",
    "WAKE_ALARM": "name of the alarm that asks for one again; default none, as SLEEP_ALARM",
    "ENDPOINT": "name of the endpoint, whose coldest replicas go first; default none, any may go",
    "DRY_RUN": "true: decide and say so, change nothing; default false",
    "SCHEDULES": "bounds that schedules set, as JSON: a list of name, min and max; default []",
}
"""Every variable that the function reads, in the words of docs/scaling.md."""

DEFAULT_COOLDOWN_SECONDS = "600"
_TRUTH = {"true": True, "1": True, "false": False, "0": False, "": False}


@dataclass(frozen=True)
class Settings:
    """Which Deployment, within which limits, and whether anything is written."""

    cluster_name: str
    namespace: str
    deployment: str
    limits: Limits
    dry_run: bool
    endpoint: str = ""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings in `environment`.

    Raises:
        SettingError: a variable is missing or cannot work; names it, its value and what would work.
    """
    low, high = _text(environment, "LOW_ALARM"), _text(environment, "HIGH_ALARM")
    if low == high:
        raise SettingError("LOW_ALARM", low, "another alarm than HIGH_ALARM, which asks for the opposite")
    return Settings(
        cluster_name=_text(environment, "CLUSTER_NAME"),
        namespace=_text(environment, "NAMESPACE"),
        deployment=_text(environment, "DEPLOYMENT"),
        limits=read_limits(environment),
        dry_run=_truth(environment, "DRY_RUN"),
        endpoint=environment.get("ENDPOINT", ""),
    )


def read_limits(environment: Mapping[str, str]) -> Limits:
    """Return the part of the settings that a decision needs; raises as `read_settings` does."""
    sleep, wake = environment.get("SLEEP_ALARM", ""), environment.get("WAKE_ALARM", "")
    if bool(sleep) != bool(wake):
        missing = "WAKE_ALARM" if sleep else "SLEEP_ALARM"
        raise SettingError(missing, None, "a name beside the other of SLEEP_ALARM and WAKE_ALARM, or neither")
    minimum = _whole_number(environment, "MIN_REPLICAS", at_least=0 if sleep else 1)
    return Limits(
        min_replicas=minimum,
        max_replicas=_whole_number(environment, "MAX_REPLICAS", at_least=max(1, minimum)),
        cooldown=timedelta(seconds=_whole_number(environment, "COOLDOWN_SECONDS", at_least=0)),
        high_alarm=_text(environment, "HIGH_ALARM"),
        low_alarm=_text(environment, "LOW_ALARM"),
        schedules=_schedules(environment, at_least=0 if sleep else 1),
        sleep_alarm=sleep,
        wake_alarm=wake,
    )


def _schedules(environment: Mapping[str, str], *, at_least: int) -> dict[str, Bounds]:
    """The bounds that each schedule sets, in their order; none of them below `at_least`."""
    text = environment.get("SCHEDULES") or "[]"
    try:
        entries: Any = json.loads(text)
        schedules = {entry["name"]: _bounds(entry, at_least) for entry in entries}
    except (ValueError, TypeError, KeyError):
        schedules = None
    if schedules is None or len(schedules) != len(entries):
        form = f"each name once, {at_least} <= min <= max, and 1 <= max"
        expected = f'such as [{{"name": "office-hours", "min": 4, "max": 7}}], {form}'
        raise SettingError("SCHEDULES", text, expected)
    return schedules


def _bounds(entry: Mapping[str, Any], at_least: int) -> Bounds:
    low, high = entry["min"], entry["max"]
    if type(low) is not int or type(high) is not int or not at_least <= low <= high or high < 1:
        raise ValueError("no bounds")
    return Bounds(low, high, f" of the schedule {entry['name']}")


def _text(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise SettingError(name, value, f"the {VARIABLES[name]}")
    return value


def _whole_number(environment: Mapping[str, str], name: str, *, at_least: int) -> int:
    value = environment.get(name)
    if value is None and name == "COOLDOWN_SECONDS":
        value = DEFAULT_COOLDOWN_SECONDS
    if value is None or not (value.isascii() and value.isdigit()) or len(value) > 9 or int(value) < at_least:
        raise SettingError(name, value, f"a whole number, {at_least} or more: {VARIABLES[name]}")
    return int(value)


def _truth(environment: Mapping[str, str], name: str) -> bool:
    value = environment.get(name, "")
    if value.lower() not in _TRUTH:
        raise SettingError(name, value, "true or false")
    return _TRUTH[value.lower()]
