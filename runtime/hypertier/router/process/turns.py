"""Long work in pieces, one in each turn of the event loop: requests pass in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Turns:
    """Calls `piece` once a turn for as long as it says that there is more; all at once where no loop runs."""

    def __init__(self, piece: Callable[[], bool]) -> None:
        self._piece = piece
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """There is work, which may be known already."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            while self._piece():
                pass
            return
        if self._loop is not loop:
            self._loop = loop
            loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        loop = self._loop
        if self._piece() and loop is not None:
            loop.call_soon(self._go_on)
        else:
            self._loop = None
