"""A router as this process's work: it runs until it is told to stop, then drains."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress

from hypertier.router.app import Router
from hypertier.router.open_files import allow_all_open_files
from hypertier.router.process_memory import collect_seldom, keep_freed_memory
from hypertier.router.settings import RouterSettings

log = logging.getLogger("hypertier.router")


async def serve(settings: RouterSettings, *, started: Callable[[Router], None] | None = None) -> None:
    """Run a router until SIGTERM or SIGINT, then drain it. `started` is called once it listens.

    SIGHUP, which workers are replaced by, ends nothing here.

    Raises ConfigError when an address can't be opened, and what made the router fail, once it drained.
    """
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    router = Router(settings)
    router.on_failure = asked_to_stop.set
    try:
        await router.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked_to_stop.set)
        loop.add_signal_handler(signal.SIGHUP, _say_what_reloads)
        if started is not None:
            started(router)
        await asked_to_stop.wait()
        log.info("draining for up to %g s, %d connection(s)", settings.drain_seconds, len(router.connections))
        await router.drain()
        if router.failure is not None:
            raise router.failure
    finally:
        with suppress(ValueError):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)
        await router.stop()


def _say_what_reloads() -> None:
    log.warning(
        "SIGHUP replaces processes of --workers; this one goes on, and reads its files when they change"
    )


def run(settings: RouterSettings, *, started: Callable[[Router], None] | None = None) -> None:
    """`serve` on a uvloop of its own."""
    import uvloop

    def begun(router: Router) -> None:
        collect_seldom()
        if started is not None:
            started(router)

    allow_all_open_files()
    keep_freed_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(settings, started=begun))
