"""A router as this process's work: it runs until it is told to stop, then drains."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hypertier.router.app import Router
from hypertier.router.process.asked import heard
from hypertier.router.process.open_files import allow_all_open_files
from hypertier.router.process.process_memory import collect_seldom, keep_freed_memory
from hypertier.router.settings import RouterSettings

log = logging.getLogger("hypertier.router")


async def serve(settings: RouterSettings, *, started: Callable[[Router], None] | None = None) -> None:
    """Run a router until SIGTERM or SIGINT, then drain it; a second one ends that.

    `started` is called once it listens. SIGHUP, which workers are replaced by, ends nothing here.

    Raises ConfigError when an address can't be opened, and what made the router fail, once it drained.
    """
    with heard(_say_what_reloads) as asked:
        router = Router(settings)
        router.on_failure = asked.stop.set
        try:
            if not await asked.unless_stopped(router.start()):
                log.info("ending: asked to before it served")
                return
            if started is not None:
                started(router)
            await asked.stop.wait()
            log.info(
                "draining for up to %g s, %d connection(s)", settings.drain_seconds, len(router.connections)
            )
            await router.drain(hurry=asked.hurry)
            if router.failure is not None:
                raise router.failure
        finally:
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
