"""How far apart replicas' work must be, where every session or shared context stays on one replica.

    python benchmarks/routing/balance.py [--seeds 21 22]

Busiest over mean, of seconds of computing prompts, when each session (in `document` and
`shared_system_prompt`: each context) is computed whole once and then only what is new, on one replica that
forgets nothing. `known` has all sessions before it begins and gives the largest first to whom has least: near
the least that is possible. `seen` gives each, when it comes first, to whom has computed least so far, as a
router can that moves no session. Policies that copy or move what is cached may be below.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Sequence

from cells import Cell, traffic
from run import cells

from hypertier.simulation.engine import EngineProfile
from hypertier.simulation.trace import BLOCK_TOKENS, TracedRequest


def own_seconds(trace: Sequence[TracedRequest], profile: EngineProfile) -> list[tuple[str, float]]:
    """Of each request its session, and its time where the session's blocks of before are held."""
    held: dict[str, set[int]] = {}
    found = []
    for request in trace:
        blocks = held.setdefault(request.session, set())
        known = next(
            (i for i, block in enumerate(request.blocks) if block not in blocks), len(request.blocks)
        )
        start = min(known * BLOCK_TOKENS, request.input_tokens - 1)
        found.append((request.session, profile.prefill_seconds(start, request.input_tokens)))
        blocks.update(request.blocks[: request.input_tokens // BLOCK_TOKENS])
    return found


def apart(loads: Sequence[float]) -> float:
    """Busiest over mean."""
    return max(loads) / statistics.fmean(loads)


def known(sessions: Iterable[float], num_replicas: int) -> float:
    """Largest first, to whom has least."""
    loads = [0.0] * num_replicas
    for seconds in sorted(sessions, reverse=True):
        loads[loads.index(min(loads))] += seconds
    return apart(loads)


def seen(requests: Iterable[tuple[str, float]], num_replicas: int) -> float:
    """In order of arrival, a session's first request to whom has least so far."""
    loads = [0.0] * num_replicas
    homes: dict[str, int] = {}
    for session, seconds in requests:
        home = homes.setdefault(session, loads.index(min(loads)))
        loads[home] += seconds
    return apart(loads)


def bounds(cell: Cell, seed: int) -> tuple[float, float]:
    """`known` and `seen` of a cell."""
    requests = own_seconds(traffic(cell, seed), cell.spec.profile)
    totals: dict[str, float] = {}
    for session, seconds in requests:
        totals[session] = totals.get(session, 0.0) + seconds
    return known(totals.values(), cell.num_replicas), seen(requests, cell.num_replicas)


def main() -> None:
    """A line for each workload and number of replicas."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22])
    options = parser.parse_args()
    for cell in cells(tuple({"num_replicas": num} for num in (4, 8, 16, 64, 512))):
        found = [bounds(cell, seed) for seed in options.seeds]
        least, usual = (statistics.fmean(column) for column in zip(*found, strict=True))
        print(
            f"{cell.workload:22} {cell.num_replicas:4} replicas: known {least:.2f}, seen {usual:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
