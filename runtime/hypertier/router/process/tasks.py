"""Work beside requests, one task for each replica or router: begun anew where it fails unforeseen."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

log = logging.getLogger("hypertier.router")

MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 30.0

Key = TypeVar("Key", bound=Hashable)


class Tasks(Generic[Key]):
    """One task a key, until it is ended. `failures` counts by `name` what only a fault of ours can cause.

    What failed is logged, and begins anew after a pause that doubles; it is short again for work that went
    on for longer than the longest pause.
    """

    def __init__(
        self,
        name: str,
        failures: Counter[str] | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.failures: Counter[str] = Counter() if failures is None else failures
        self._name = name
        self._sleep = sleep
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._tasks

    @property
    def keys(self) -> set[Key]:
        """Those at work."""
        return set(self._tasks)

    def start(self, key: Key, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do this from now on; nothing where the key is at work already."""
        if key not in self._tasks:
            self._tasks[key] = asyncio.get_running_loop().create_task(self._tend(key, work))

    def end(self, key: Key) -> bool:
        """End it; whether there was one."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
        return task is not None

    async def stop(self) -> None:
        """End all, and return once they have."""
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self.end(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tend(self, key: Key, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        now = asyncio.get_running_loop().time
        pause = MIN_PAUSE_SECONDS
        while True:
            began = now()
            try:
                await work()
                return
            except Exception:
                self.failures[self._name] += 1
                if now() - began > MAX_PAUSE_SECONDS:
                    pause = MIN_PAUSE_SECONDS
                log.exception("%s of %s failed; begins anew in %g s", self._name, key, pause)
            await self._sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
