"""Where each alarm's runbook stands: what it means, what to look at, what to do."""

from __future__ import annotations

PAGE = "docs/alarms.md"


def with_runbook(description: str, heading: str) -> str:
    """The description of an alarm, and the section of the page that says what to do; `heading` is its title.

    Whoever is woken has the alarm's text alone, so it names the place.
    """
    return f"{description}. Runbook: {PAGE}#{heading.lower()}"
