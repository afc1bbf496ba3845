"""Choose each peer's settings: the lowest geometric mean of P90 TTFT over the training cells.

python benchmarks/routing/tune.py        some minutes; prints the best of each grid, for TUNED in peers.py
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from cells import Cell, measure, traffic
from peers import GRIDS, Build

from hypertier.simulation.trace import TracedRequest

SEEDS = (1, 2)
CELLS = [
    Cell(workload, load=load, num_requests=1500)
    for workload in ("conversation", "agent", "document", "multi_round", "shared_system_prompt")
    for load in ("even", "busy")
]


def p90(build: Build, traces: Sequence[tuple[Cell, int, list[TracedRequest]]]) -> float:
    """The geometric mean over all training cells and seeds, in seconds."""
    return statistics.geometric_mean(
        measure(cell, seed, trace, build).ttft_p90_seconds for cell, seed, trace in traces
    )


def main() -> None:
    """Print the grids' best."""
    traces = [(cell, seed, traffic(cell, seed)) for cell in CELLS for seed in SEEDS]
    for name, grid in GRIDS.items():
        results = sorted((p90(build, traces), what) for what, build in grid)
        print(
            f"{name}: {results[0][1]}  {results[0][0]:.3f} s; the worst tried {results[-1][0]:.3f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
