"""What each replica is worth: the tokens that others would compute anew without it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from hypertier.exporter.metrics import WARM_TOKENS
from hypertier.exporter.scrape import Scrape
from hypertier.exporter.series import DataPoint

WINDOW_SECONDS = 15 * 60.0
"""So long what a cache gave counts: long enough for a conversation's next turn, short beside a low alarm."""


class _Count(NamedTuple):
    at: float
    found_tokens: float


class Warmth:
    """Remembers, for `WINDOW_SECONDS`, what every replica found in its own caches.

    What is held by requests that run counts as much: where a pod's grace period ends before they do, others
    compute it anew. A replica counts from its second scrape on, so that a new one has found little.
    """

    def __init__(self) -> None:
        self._counts: dict[str, deque[_Count]] = {}

    def step(self, scrapes: Mapping[str, Scrape], at: float) -> list[DataPoint]:
        """Return a data point for each replica, by URL, whose worth is known at `at`, in seconds."""
        for url in [url for url, counts in self._counts.items() if counts[-1].at < at - WINDOW_SECONDS]:
            del self._counts[url]
        data = []
        for url, scrape in scrapes.items():
            if scrape.found_tokens is None or scrape.held_tokens is None:
                continue
            counts = self._counts.setdefault(url, deque())
            if counts and scrape.found_tokens < counts[-1].found_tokens:
                # Another engine, or the same one started anew: what it shows, it found since.
                counts = self._counts[url] = deque([_Count(counts[-1].at, 0.0)])
            counts.append(_Count(at, scrape.found_tokens))
            while len(counts) > 2 and counts[1].at <= at - WINDOW_SECONDS:
                counts.popleft()
            if len(counts) > 1:
                worth = scrape.found_tokens - counts[0].found_tokens + scrape.held_tokens
                data.append(DataPoint(WARM_TOKENS, (worth,), replica=urlsplit(url).hostname))
        return data
