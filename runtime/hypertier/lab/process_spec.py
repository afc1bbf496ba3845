"""What it takes to start one process of the lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProcessSpec:
    """A process to start. `env` is all of its environment. It and `stdin` may hold secrets: not shown.

    `health_url` says when it is ready: `http://HOST:PORT/PATH` answers 200, `redis://HOST:PORT` answers PING.
    """

    name: str
    argv: tuple[str, ...]
    health_url: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    stdin: str = field(default="", repr=False)
    stop_seconds: float = 20.0
