"""Whether a file is another than the one that was read."""

from __future__ import annotations

import os

Stamp = tuple[int, int, int]
"""When a file was changed, in nanoseconds, which one it is, and its size in bytes."""


def stamp(path: str) -> Stamp | None:
    """The file's, behind the links that Kubernetes swaps; None where there is none to see."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
