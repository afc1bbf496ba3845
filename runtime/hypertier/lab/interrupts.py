"""Ending early, yet cleanly: SIGTERM and SIGHUP are treated as Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], None] | signal.Handlers


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt inside, so that what was started is ended."""
    with handled((signal.SIGTERM, signal.SIGHUP), _interrupt):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a clean-up finish: who presses Ctrl-C a second time does not leave half of it undone."""
    with handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN):
        yield


@contextmanager
def handled(numbers: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Handle signals so inside. Only the main thread can; in another one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
