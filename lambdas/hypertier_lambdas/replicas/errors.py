"""Every error that this hook raises on purpose; a raised error makes Lambda try the event again.

HookError                 anything below
├── SettingError          an environment variable that cannot work
├── EventError            an event that is neither an alarm's nor a schedule's
├── StateError            an annotation that the hook did not write as it stands
├── FiguresError          CloudWatch did not tell what replicas are worth: any of them may go then
└── ClusterError          the cluster did not do what was asked
    ├── ConflictError     somebody else changed the Deployment in between: read again, decide again
    └── DeadlineError     the time that Lambda gives is used up
"""

from __future__ import annotations


class HookError(Exception):
    """The root of every error that this hook raises on purpose."""


class SettingError(HookError):
    """An environment variable that cannot work: names it, what it was, what would work."""

    def __init__(self, setting: str, got: str | None, expected: str) -> None:
        super().__init__(f"{setting} is {'not set' if got is None else repr(got)}; expected {expected}")
        self.setting = setting
        self.got = got


class EventError(HookError):
    """An event that is neither an alarm's nor a schedule's: names the field that is missing or wrong."""


class StateError(HookError):
    """An annotation that the hook cannot read: names it, its value, and the command that removes it."""


class FiguresError(HookError):
    """CloudWatch did not tell what replicas are worth: says why."""


class ClusterError(HookError):
    """The cluster did not do what was asked: says what was asked, what came back, and what to look at."""


class ConflictError(ClusterError):
    """The Deployment changed between our read and our write (HTTP 409)."""


class DeadlineError(ClusterError):
    """The time that Lambda gives is used up before the cluster answered."""
