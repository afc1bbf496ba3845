"""Keeping the routes in step with their file: what can't be used changes nothing, and is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from hypertier.errors import ConfigError
from hypertier.router.process.stamps import Complaint, stamp, was_unread
from hypertier.router.routes.routes import MAX_BYTES, Routes, parse

WATCH_SECONDS = 2.0


class RouteFile:
    """Looks at the file every two seconds; `use` gets what it says, `complaint` what is wrong with it.

    Kubernetes swaps a ConfigMap's files by a link: what is looked at is what the link leads to. A file that
    is not there says nothing, as an empty one does: an optional ConfigMap may come later.
    """

    def __init__(
        self, path: str, *, has_kvaware: bool, use: Callable[[Routes], None], complaint: Complaint
    ) -> None:
        self.reads: Counter[str] = Counter()
        self._path = path
        self._has_kvaware = has_kvaware
        self._use = use
        self._complaint = complaint
        self._stamp: object = None

    def start(self) -> None:
        """Read it. Raises ConfigError for one that can't be used: a router does not start with less."""
        self._stamp = stamp(self._path)
        self._use(self._read())
        self.reads["good"] += 1

    def step(self) -> None:
        """Read it where it changed."""
        seen = stamp(self._path)
        if seen == self._stamp:
            return
        self._stamp = seen
        try:
            routes = self._read()
        except ConfigError as error:
            self.reads["failed"] += 1
            self._stamp = () if was_unread(error) else seen
            self._complaint.failed(f"keeping the routes in use: {self._path}", error, seen)
            return
        self.reads["good"] += 1
        self._complaint.mended(f"the routes in {self._path} can be used again")
        self._use(routes)

    async def run(self) -> None:
        """Step until cancelled."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self.step()

    def _read(self) -> Routes:
        try:
            with open(self._path, "rb") as file:
                text = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return Routes()
        except OSError as error:
            raise ConfigError(
                "--routes", self._path, f"a file that can be read ({error.strerror})"
            ) from error
        if len(text) > MAX_BYTES:
            raise ConfigError("--routes", self._path, f"a file of at most {MAX_BYTES} bytes")
        return parse(text, self._has_kvaware, self._path)
