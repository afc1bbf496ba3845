"""Signals to a process that starts: held until it can do as they say.

One that is told to stop while it loads would be ended by the signal. A container's first process, which gets
no signal that it has no handler for (https://manpath.be/f39/7/pid_namespaces, read 2026-12-03), would go on
as if nothing had been said, until it is killed. A signal that is blocked waits for both.
"""

from __future__ import annotations

import signal

HELD = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def hold() -> None:
    """Keep them for later."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)


def release() -> bool:
    """Let them come, those that were kept first; whether they were held."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
    return before >= HELD
