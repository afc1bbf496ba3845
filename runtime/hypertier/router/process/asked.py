"""What a router's process is asked by signals: to stop, to hurry, to reload."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from hypertier import held_signals

AGAIN_SECONDS = 0.5
"""What comes sooner is the same wish: of a terminal and of what runs there, which passes on what it gets."""


class Asked:
    """`stop` is set by SIGTERM or SIGINT, `hurry` by a further one; the loop's time tells these apart."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        self._now = now
        self._asked_at: float | None = None

    def to_stop(self) -> None:
        """Somebody wants it to end."""
        if self._asked_at is None:
            self._asked_at = self._now()
            self.stop.set()
        elif self._now() - self._asked_at >= AGAIN_SECONDS:
            self.hurry.set()

    async def unless_stopped(self, start: Coroutine[Any, Any, None]) -> bool:
        """Do this, and give it up where asked to stop; whether it was done. Raises what it raises."""
        starting = asyncio.ensure_future(start)
        stop = asyncio.ensure_future(self.stop.wait())
        await asyncio.wait({starting, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not self.stop.is_set():
            starting.result()
            return True
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return False


async def ended(work: Awaitable[Any], seconds: float, hurry: asyncio.Event | None = None) -> bool:
    """Wait for `work` for so long, or until `hurry` is set, and give it up then; whether it ended."""
    waited_for = [asyncio.ensure_future(one) for one in (work, *([hurry.wait()] if hurry else []))]
    try:
        await asyncio.wait(waited_for, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return waited_for[0].done()
    finally:
        for one in waited_for:
            one.cancel()


@contextmanager
def heard(reload: Callable[[], None]) -> Iterator[Asked]:
    """Hear signals inside, those among them that were held until now; SIGHUP calls `reload`.

    Where they were held, they mean nothing behind it, so that none is the end of a process that ends well.
    """
    loop = asyncio.get_running_loop()
    asked = Asked(loop.time)
    calls = {signal.SIGTERM: asked.to_stop, signal.SIGINT: asked.to_stop, signal.SIGHUP: reload}
    for number, call in calls.items():
        loop.add_signal_handler(number, call)
    were_held = held_signals.release()
    try:
        yield asked
    finally:
        if were_held:
            held_signals.hold()
        for number in calls:
            loop.remove_signal_handler(number)
            if were_held:  # further threads do not hold what this one does
                signal.signal(number, signal.SIG_IGN)
