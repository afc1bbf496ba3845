"""How near to even a cell's replicas could be without longer waits: what its traffic forces.

    python benchmarks/routing/forced.py [--seeds 4 5 6 61 62 63] [--only TEXT] [--cache DIR] [--processes 2]

All figures are the busiest replica's seconds of computing prompts over the mean, the mean of the seeds. Who
computes all anew can be as even as can be and is no comparison, so two of them are taken where P90 of the
time to the first token is at most `SLACK` times the router's own:

- `peer`: the lowest of the peers that are that fast, on the requests of all seeds together. A peer is told
  nothing beforehand: what it reaches, a router can reach.
- `hindsight`: the router's own run once more, with sessions, or ends of them, moved from the busiest replicas
  to others by who has seen all of it (`moving.py`). It is a search and proves nothing where it fails: the
  least may be lower.
- `at any price`: the lowest of all peers, however long they wait, with their P90 over the router's own.

A cell that is not within 1.1 is one that `a peer does`, or else that `hindsight does`, where that figure is
within it; if neither is, it is `forced`, as far as was found. The last line is one JSON object: how many
cells are which.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cells import REQUESTS_PER_COPY, Cell
from moving import evened
from peers import ALL, HYPERTIER, OURS
from pooled import Pool
from run import CACHE, MAX_BUSIEST, VARIATIONS, cells
from samples import Sample, Samples, take

SLACK = 1.1
"""P90 may be so many times the router's own."""
MAX_REPLICAS = 64
"""With more, so many requests as the benchmark has leave some replicas with hardly any."""
MET, PEER, HINDSIGHT, FORCED = "met", "a peer does", "hindsight does", "forced"


@dataclass(frozen=True)
class Evenness:
    """Of one cell: the router's own; the nearest to even of the peers as fast, None where there is none; what
    hindsight makes of it; the nearest of all peers, with its P90 over the router's.
    """

    own: float
    peer: tuple[str, float] | None
    hindsight: float
    at_any_price: tuple[str, float, float]

    @property
    def verdict(self) -> str:
        """What holds of the cell."""
        if self.own <= MAX_BUSIEST:
            return MET
        if self.peer is not None and self.peer[1] <= MAX_BUSIEST:
            return PEER
        return HINDSIGHT if self.hindsight <= MAX_BUSIEST else FORCED

    def __str__(self) -> str:
        """For people."""
        peer = "none" if self.peer is None else f"{self.peer[1]:.2f} {self.peer[0]}"
        name, busiest, price = self.at_any_price
        return (
            f"{self.verdict:15} own {self.own:.2f}, peer {peer}, hindsight {self.hindsight:.2f}, "
            f"at any price {busiest:.2f} {name} at {price:.1f} times the P90"
        )


def evenness(by_policy: Mapping[str, Sequence[Sample]], hindsight: float) -> Evenness:
    """From policy -> samples, those of all policies in the same order of seeds."""

    def busiest(name: str) -> float:
        return statistics.fmean(sample.summary.imbalance_ratio for sample in by_policy[name])

    seeds = [1] * len(by_policy[HYPERTIER])
    p90 = {name: Pool(samples).quantile(0.9, seeds) for name, samples in by_policy.items()}
    own = p90[HYPERTIER]
    as_fast = [name for name in ALL if p90[name] <= SLACK * own]
    nearest, evenest = min(as_fast, key=busiest, default=None), min(ALL, key=busiest)
    return Evenness(
        busiest(HYPERTIER),
        None if nearest is None else (nearest, busiest(nearest)),
        hindsight,
        (evenest, busiest(evenest), p90[evenest] / own),
    )


def run_cell(folder: Path, job: tuple[Cell, int]) -> tuple[Cell, int, Samples, float]:
    """One cell with one seed: all the policies, and the router's own run moved."""
    cell, seed = job
    samples = take(cell, seed, {HYPERTIER: OURS[HYPERTIER], **ALL}, folder)
    own = samples[HYPERTIER].summary.imbalance_ratio
    is_met = own <= MAX_BUSIEST
    return cell, seed, samples, own if is_met else evened(cell, seed, OURS[HYPERTIER], SLACK, MAX_BUSIEST)


def main() -> None:
    """A line for each cell, then the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[4, 5, 6, 61, 62, 63])
    parser.add_argument("--only", default="", metavar="TEXT", help="the cells whose label has TEXT in it")
    parser.add_argument("--requests", type=int, default=REQUESTS_PER_COPY, help="of each user")
    parser.add_argument("--cache", type=Path, default=CACHE, help="keep what policies made in this folder")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()

    wanted = [
        replace(cell, num_requests=options.requests)
        for cell in cells(VARIATIONS)
        if options.only in cell.label and cell.num_replicas <= MAX_REPLICAS
    ]
    if not wanted:
        parser.error(f"--only {options.only!r}: no cell's label has that in it, as 'agent: num_replicas=64'")
    jobs = [(cell, seed) for cell in wanted for seed in options.seeds]
    runs: list[tuple[Samples, float]] = []
    verdicts: Counter[str] = Counter()
    with multiprocessing.Pool(options.processes) as pool:
        for cell, seed, samples, moved in pool.imap(partial(run_cell, options.cache), jobs):
            runs.append((samples, moved))
            if seed == options.seeds[-1]:
                by_policy = {name: [one[name] for one, _ in runs] for name in (HYPERTIER, *ALL)}
                found = evenness(by_policy, statistics.fmean(moved for _, moved in runs))
                verdicts[found.verdict] += 1
                print(f"{cell.label:60} {found}", flush=True)
                runs.clear()
    print(json.dumps({verdict: verdicts[verdict] for verdict in (MET, PEER, HINDSIGHT, FORCED)}))


if __name__ == "__main__":
    main()
