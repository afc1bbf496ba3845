"""A cell of the benchmark: which traffic meets which cluster."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypertier.simulation.cluster import ClusterSpec, simulate
from hypertier.simulation.engine import EngineProfile
from hypertier.simulation.policy import Policy, World
from hypertier.simulation.report import Summary, summarize
from hypertier.simulation.trace import TracedRequest, merged, read_trace, with_load
from hypertier.simulation.workloads import BUSY_LOAD, WORKLOADS

RECORDED = "recorded"
TRACE_VARIABLE = "HYPERTIER_TRACE"
"""Names a trace in Mooncake's form; without it the cells of the recorded workload are left out."""
KEPT = 0.95
"""Share of a recorded trace's requests that a seed keeps."""
REQUESTS_PER_COPY = 1500
CUT = (0.4, 0.6)
"""In cells of routers that are `cut` off: the part of the time in which they hear nothing of one another."""
MAX_COPIES = 4
"""Users side by side at the most; beyond that, the same requests come closer together."""


@dataclass(frozen=True)
class Cell:
    """One world. `load` is `even` (computing every prompt whole takes all engines), `busy` or `overload`."""

    workload: str
    num_replicas: int = 8
    cache_tokens: int = 400_000
    num_routers: int = 1
    events: bool = False
    believed_capacity: float = 1.0
    slow_replicas: int = 0
    cut: bool = False
    load: str = "busy"
    num_requests: int = REQUESTS_PER_COPY

    @property
    def label(self) -> str:
        """What differs from the plain cell, for people."""
        plain = Cell(self.workload)
        parts = [
            f"{name}={getattr(self, name)}"
            for name in self.__dataclass_fields__
            if name not in ("workload", "num_requests") and getattr(self, name) != getattr(plain, name)
        ]
        return f"{self.workload}: {', '.join(parts) or 'plain'}"

    @property
    def spec(self) -> ClusterSpec:
        """The cluster that the traffic meets."""
        return ClusterSpec(
            self.num_replicas,
            EngineProfile(cache_tokens=self.cache_tokens),
            self.num_routers,
            self.events,
            self.believed_capacity,
            slow_replicas=self.slow_replicas,
            cut=CUT if self.cut else None,
        )


def traffic(cell: Cell, seed: int) -> list[TracedRequest]:
    """The cell's requests: for many replicas, several users' side by side."""
    copies = min(max(1, cell.num_replicas // 8), MAX_COPIES)
    if cell.workload == RECORDED:
        draw = random.Random(seed)
        recorded = read_trace(Path(os.environ[TRACE_VARIABLE]))
        trace = merged([request for request in recorded if draw.random() < KEPT] for _ in range(copies))
    else:
        generate = WORKLOADS[cell.workload]
        trace = merged(generate(100 * seed + copy, cell.num_requests) for copy in range(copies))
    busy = BUSY_LOAD.get(cell.workload, 1.2)
    load = {"even": 1.0, "busy": busy, "overload": 2 * busy}[cell.load]
    return with_load(trace, load * cell.num_replicas, cell.spec.profile.prefill_seconds)


def measure(cell: Cell, seed: int, trace: list[TracedRequest], build: Callable[[World], Policy]) -> Summary:
    """What the policy makes of the cell's traffic."""
    return summarize(simulate(trace, cell.spec, build, seed))
