"""How many connections a router's process may have: each is an open file to the kernel."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("hypertier.router")

FEW = 4096
"""A client and its engine are two; container runtimes differ in what they allow, and 1,024 is common."""


def allow_all_open_files() -> int:
    """Raise the limit of open files to what this process may have, and return it; say so where it is low.

    What is allowed without asking for more is a soft limit, often 1,024:
    https://semicolony.dev/codex/linux/ulimit-limits (read 2026-12-02).
    """
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        log.info("the limit of open files is raised from %d to %s", allowed, most if most >= 0 else "none")
    if 0 <= most < FEW:  # RLIM_INFINITY is below 0
        log.warning(
            "at most %d open files, about two for each request in flight: clients beyond are turned away; "
            "raise it by `ulimit -Hn`, or LimitNOFILE= of what starts containers",
            most,
        )
    return most
