"""Schedules as EventBridge Scheduler takes them: `cron(...)` of six fields, and moments.

https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html (read 2026-12-02)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import available_timezones

CRON_FORM = (
    "six fields: minutes, hours, day of the month, month, day of the week, year, one of the days ?, such as "
    "cron(30 7 ? * MON-FRI *)"
)
AT_FORM = "a moment without a zone, such as 2027-03-01T08:00:00"
TIME_ZONE_FORM = "an IANA time zone, such as Europe/Berlin"
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_CRON = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)")
_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_TIME_ZONE = re.compile(r"[A-Za-z]{1,14}([/_+-][A-Za-z0-9]{1,20}){0,4}")
_MAX_CRON = 256
_MAX_TIME_ZONE = 50


@dataclass(frozen=True, slots=True)
class _Field:
    """What one field takes: numbers from `least` to `most`, words for them, and `marks` of its own."""

    least: int
    most: int
    words: Sequence[str] = ()
    first: int = 0
    marks: str | None = None

    def takes(self, text: str) -> bool:
        """Whether it is `*`, or a list of numbers, ranges and steps; or one of its own marks."""
        if self.marks is not None and re.fullmatch(self.marks, text):
            return True
        return all(self._is_part(part) for part in text.split(","))

    def _is_part(self, part: str) -> bool:
        span, slash, step = part.partition("/")
        if slash and not (step.isascii() and step.isdigit() and 0 < int(step) <= self.most):
            return False
        if span == "*":
            return True
        low, dash, high = span.partition("-")
        start, end = self._number(low), self._number(high if dash else low)
        return start is not None and end is not None and (start <= end or bool(self.words))

    def _number(self, text: str) -> int | None:
        if text.upper() in self.words:
            return self.words.index(text.upper()) + self.first
        if not (text.isascii() and text.isdigit() and len(text) <= 4):
            return None
        return int(text) if self.least <= int(text) <= self.most else None


_FIELDS = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31, marks=r"L|LW|([1-9]|[12][0-9]|3[01])W"),
    _Field(1, 12, words=MONTHS, first=1),
    _Field(1, 7, words=DAYS, first=1, marks=r"L|[1-7]L|([1-7]|SUN|MON|TUE|WED|THU|FRI|SAT)#[1-5]"),
    _Field(1970, 2199),
)
_DAY_OF_MONTH, _DAY_OF_WEEK = 2, 4


def is_cron(text: str) -> bool:
    """Whether EventBridge Scheduler takes the expression."""
    found = _CRON.fullmatch(text)
    if found is None or len(text) > _MAX_CRON:
        return False
    fields = found.groups()
    if [fields[_DAY_OF_MONTH], fields[_DAY_OF_WEEK]].count("?") != 1:
        return False
    days = (_DAY_OF_MONTH, _DAY_OF_WEEK)
    return all(
        field.takes(entry) or (entry == "?" and number in days)
        for number, (field, entry) in enumerate(zip(_FIELDS, fields, strict=True))
    )


def is_moment(text: str) -> bool:
    """Whether it is a moment of some time zone, to the second."""
    try:
        return bool(_AT.fullmatch(text)) and datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False


def is_time_zone(text: str) -> bool:
    """Whether there is such a time zone, or could be where this machine knows none."""
    known = available_timezones()
    return len(text) <= _MAX_TIME_ZONE and bool(text in known if known else _TIME_ZONE.fullmatch(text))
