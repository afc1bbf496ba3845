"""The router as this machine's process: signals, open files, memory, and work beside requests."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "process")
