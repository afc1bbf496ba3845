"""How the router's process keeps memory: what one request frees the next one needs."""

from __future__ import annotations

import ctypes
import gc

# glibc's parameters, https://man7.org/linux/man-pages/man3/mallopt.3.html (read 2026-12-02)
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
KEPT_BYTES = 16 * 2**20
"""Freed memory that stays the process's own: bodies that come and go would else be mapped anew by pages."""
MAX_KEPT_BODY_BYTES = 4 * 2**20
PAD_BYTES = 2**20
NEW_OBJECTS = 10_000
"""So many, made and not freed, before the collector looks for cycles; 700 are Python's default."""


def keep_freed_memory() -> bool:
    """Have the allocator keep `KEPT_BYTES`; False where it is not glibc's, and nothing changes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    settings = (
        (_M_MMAP_THRESHOLD, MAX_KEPT_BODY_BYTES),
        (_M_TRIM_THRESHOLD, KEPT_BYTES),
        (_M_TOP_PAD, PAD_BYTES),
    )
    return all(mallopt(parameter, num_bytes) == 1 for parameter, num_bytes in settings)


def collect_seldom() -> None:
    """Leave what is there now to the end: a request leaves no cycles behind, and modules never go."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
