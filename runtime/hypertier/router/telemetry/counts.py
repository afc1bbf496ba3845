"""What a request adds to: plain numbers, which `metrics` makes series of."""

from __future__ import annotations

from typing import Final

FIRST_BYTE_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class RequestCounts:
    """The router's own, since it started; those of a replica until it leaves."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str], int] = {}
        self.retries: dict[str, int] = {}
        self.ejections: dict[tuple[str, str], int] = {}
        self._statuses: set[str] = set()
        self._causes: set[str] = set()
        self.picks: dict[str, int] = {}
        self.prompt_bytes = 0
        self.matched_bytes = 0
        self.first_bytes = [0] * (len(FIRST_BYTE_SECONDS) + 1)
        self.first_byte_seconds = 0.0

    def answered(self, replica: str, status: str) -> None:
        """One request ended; `status` is a class such as `2xx`, `client_closed`, or `broken` when begun."""
        key = replica, status
        before = self.requests.get(key, 0)
        if not before:
            self._statuses.add(status)
        self.requests[key] = before + 1

    def retried(self, cause: str) -> None:
        """One request is sent again; `cause` is `connect`, `reset`, `stale` or a status."""
        self.retries[cause] = self.retries.get(cause, 0) + 1

    def ejected(self, replica: str, cause: str) -> None:
        """One replica was ejected."""
        key = replica, cause
        self._causes.add(cause)
        self.ejections[key] = self.ejections.get(key, 0) + 1

    def picked(self, reason: str, num_bytes: int, matched_bytes: int) -> None:
        """One replica was chosen."""
        self.picks[reason] = self.picks.get(reason, 0) + 1
        self.prompt_bytes += num_bytes
        self.matched_bytes += matched_bytes

    def first_byte(self, seconds: float) -> None:
        """One answer began, so long after its request was read."""
        number = 0
        while number < len(FIRST_BYTE_SECONDS) and FIRST_BYTE_SECONDS[number] < seconds:
            number += 1
        self.first_bytes[number] += 1
        self.first_byte_seconds += seconds

    def forget(self, replica: str) -> None:
        """A replica left: its series go too, or a fleet that turns over would grow them without bound."""
        for status in self._statuses:
            self.requests.pop((replica, status), None)
        for cause in self._causes:
            self.ejections.pop((replica, cause), None)
