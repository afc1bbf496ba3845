"""Every error that this hook raises on purpose; CloudFormation shows its message as the resource's failure.

ReadinessError            anything below
├── PropertyError         a property of the resource that cannot work
├── ClusterError          the cluster could not be asked: says why and what to look at
└── NotReadyError         the time is up: says what is still missing
"""

from __future__ import annotations


class ReadinessError(Exception):
    """The root of every error that this hook raises on purpose."""


class PropertyError(ReadinessError):
    """A property of the resource that cannot work: names it, what it was, what would work."""

    def __init__(self, name: str, got: object, expected: str) -> None:
        super().__init__(f"{name} is {got!r}; expected {expected}")
        self.name = name
        self.got = got


class ClusterError(ReadinessError):
    """The cluster could not be asked: says what was asked, what came back, and what to look at."""


class NotReadyError(ReadinessError):
    """The time is up: says what is still missing, and what to look at."""
