"""The router's own code against other routers' policies, over many worlds: `make bench NAME=routing`.

    python benchmarks/routing/run.py [--seeds 4 5 6 61 62 63] [--quick] [--only TEXT] [--requests 1500]
        [--choosing-seeds 1 2 3] [--cache DIR] [--processes 2]

Below 1 is better: 0.9 is a tenth less time to the first token. The last line is one JSON object:
`p90_geomean_vs_best_peer` and `p50_geomean_vs_best_peer` compare geometric means over all cells with
those of the one peer that has the lowest, the worst seed's P90 in `p90_of_worst_seed`;
`worst_cell_vs_best_peer` compares each cell, the geometric mean of its seeds, with the best peer of just
that cell, and is the largest of these, of which `cells_above_1_05` are above that. `pooled` has P90 of
the requests of all seeds together over that of the cell's best peer on the same seeds, `chosen_before`
over that of the peer that was best on `--choosing-seeds`: the largest, how many are above 1.05, and how
many by more than noise, so that the low end of their range is above it as well, of nine tenths of 400
draws of the seeds. `busiest` says the same of the busiest replica's time over the mean, and 1.1.
`three_routers_vs_one` is P90 of three routers that tell one another over that of one, the geometric mean
over the workloads, without and with KV events; `three_routers_cut_vs_one` the same where they hear
nothing for a fifth of the time. Peers run at their documented defaults and tuned on other seeds than
these. What was run once is not run again as long as the code is the same. HYPERTIER_TRACE names a
recorded trace, which is then one workload more.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cells import RECORDED, REQUESTS_PER_COPY, TRACE_VARIABLE, Cell
from peers import ALL, HYPERTIER, OURS, Build
from pooled import CellFigures, Figure, above, best, figures
from samples import Sample, Samples, take

from hypertier.simulation.report import Summary
from hypertier.simulation.workloads import WORKLOADS

VARIATIONS: tuple[dict[str, object], ...] = (
    {},
    {"load": "even"},
    {"load": "overload"},
    {"num_replicas": 4},
    {"num_replicas": 16},
    {"num_replicas": 64},
    {"cache_tokens": 1_500_000},
    {"events": True},
    {"num_routers": 3},
    {"num_routers": 3, "events": True},
    {"believed_capacity": 4.0},
    {"slow_replicas": 1},
    {"num_replicas": 512},
)
QUICK = VARIATIONS[:2]
MAX_RATIO, MAX_BUSIEST = 1.05, 1.1
CACHE = Path(__file__).parents[2] / "build" / "routing"

Job = tuple[Cell, int, Mapping[str, Build]]
Found = dict[tuple[Cell, int], Samples]
"""(cell, seed) -> policy -> what it made of that."""


def cells(variations: tuple[dict[str, object], ...]) -> list[Cell]:
    """Every workload in every variation of the plain world."""
    workloads = [*WORKLOADS, *([RECORDED] if TRACE_VARIABLE in os.environ else [])]
    return [Cell(workload, **change) for change in variations for workload in workloads]  # type: ignore[arg-type]


def run_cell(folder: Path, job: Job) -> tuple[Cell, int, Samples]:
    """One cell with one seed: all the policies on the same traffic."""
    cell, seed, policies = job
    return cell, seed, take(cell, seed, policies, folder)


def ours_in(cell: Cell) -> dict[str, Build]:
    """Whether routers tell one another makes a difference only where there are several."""
    return OURS if cell.num_routers > 1 else {HYPERTIER: OURS[HYPERTIER]}


def compare(found: Mapping[tuple[Cell, int], Mapping[str, Summary]], ours: str) -> dict[str, float]:
    """Means over all cells, and each cell by the geometric means of its seeds."""
    by_cell: dict[Cell, list[Mapping[str, Summary]]] = {}
    by_seed: dict[int, list[Mapping[str, Summary]]] = {}
    for (cell, seed), one in found.items():
        by_cell.setdefault(cell, []).append(one)
        by_seed.setdefault(seed, []).append(one)

    def of_best(field: str, those: Collection[Mapping[str, Summary]]) -> float:
        """Ours over the peer that has the lowest geometric mean."""

        def mean(name: str) -> float:
            return statistics.geometric_mean(getattr(one[name], field) for one in those)

        return mean(ours) / min(map(mean, ALL))

    of_cells = [of_best("ttft_p90_seconds", seeds) for seeds in by_cell.values()]
    return {
        "p90_geomean_vs_best_peer": round(of_best("ttft_p90_seconds", found.values()), 3),
        "p90_of_worst_seed": round(max(of_best("ttft_p90_seconds", those) for those in by_seed.values()), 3),
        "worst_cell_vs_best_peer": round(max(of_cells), 3),
        "cells_above_1_05": sum(ratio > MAX_RATIO for ratio in of_cells),
        "p50_geomean_vs_best_peer": round(of_best("ttft_p50_seconds", found.values()), 3),
    }


def counted(name: str, of_cells: Sequence[Figure], limit: float) -> dict[str, float]:
    """The worst of the cells, how many are above the limit, and how many by more than noise."""
    num_above, num_beyond_noise = above(of_cells, limit)
    worst = round(max(one.value for one in of_cells), 3)
    return {
        f"{name}_worst_cell": worst,
        f"{name}_cells_above": num_above,
        f"{name}_beyond_noise": num_beyond_noise,
    }


def of_one_router(found: Mapping[tuple[Cell, int], Mapping[str, Summary]]) -> dict[str, float]:
    """P90 of three routers over that of one."""

    def p90(cell: Cell, seed: int) -> float:
        return found[cell, seed][HYPERTIER].ttft_p90_seconds

    def ratio(*, cut: bool) -> float:
        return statistics.geometric_mean(
            p90(cell, seed) / p90(replace(cell, num_routers=1, cut=False), seed)
            for cell, seed in found
            if cell.num_routers > 1 and cell.cut == cut
        )

    return {
        "three_routers_vs_one": round(ratio(cut=False), 3),
        "three_routers_cut_vs_one": round(ratio(cut=True), 3),
    }


def summaries(found: Found) -> dict[tuple[Cell, int], dict[str, Summary]]:
    """Without the waits."""
    return {key: {name: sample.summary for name, sample in one.items()} for key, one in found.items()}


def of_cell(cell: Cell, found: Found, seeds: Sequence[int], choosing: Sequence[int]) -> CellFigures:
    """From all that was run of it."""

    def by_policy(of: Sequence[int], names: Collection[str]) -> dict[str, list[Sample]]:
        return {name: [found[cell, seed][name] for seed in of] for name in names}

    fair_peer = best(by_policy(choosing, ALL), list(ALL))
    return figures(by_policy(seeds, [HYPERTIER, *ALL]), HYPERTIER, list(ALL), fair_peer)


def main() -> None:
    """Run the cells; a line for each, then means, then the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[4, 5, 6, 61, 62, 63])
    parser.add_argument(
        "--choosing-seeds",
        type=int,
        nargs="+",
        default=[1, 2, 3],
        help="those on which each cell's best peer is chosen for `chosen_before`",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="two of the thirteen variations")
    which.add_argument("--only", default="", metavar="TEXT", help="the cells whose label has TEXT in it")
    parser.add_argument(
        "--requests",
        type=int,
        default=REQUESTS_PER_COPY,
        help="of each of the users side by side, four where there are 32 replicas or more",
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="keep what was run in this folder")
    parser.add_argument("--processes", type=int, help="as many as there are cores, where not given")
    options = parser.parse_args()

    wanted = [
        replace(cell, num_requests=options.requests)
        for cell in cells(QUICK if options.quick else VARIATIONS)
        if options.only in cell.label
    ]
    if not wanted:
        parser.error(f"--only {options.only!r}: no cell's label has that in it, as 'agent: num_replicas=64'")
    if set(options.seeds) & set(options.choosing_seeds):
        both = sorted(set(options.seeds) & set(options.choosing_seeds))
        parser.error(f"--choosing-seeds has {both} of --seeds; expected others, so that no peer is lucky")
    seeds, choosing = options.seeds, options.choosing_seeds
    jobs: list[Job] = []
    for cell in wanted:
        jobs += [(cell, seed, ALL) for seed in choosing]
        jobs += [(cell, seed, {**ours_in(cell), **ALL}) for seed in seeds]
    cut_jobs: list[Job] = [
        (replace(cell, cut=True), seed, {HYPERTIER: OURS[HYPERTIER]})
        for cell in wanted
        if cell.num_routers > 1
        for seed in seeds
    ]
    found: Found = {}
    cut: Found = {}
    of_cells: dict[Cell, CellFigures] = {}
    with multiprocessing.Pool(options.processes) as pool:
        for cell, seed, samples in pool.imap(partial(run_cell, options.cache), jobs, chunksize=1):
            found[cell, seed] = samples
            if seed == seeds[-1]:
                one = of_cells[cell] = of_cell(cell, found, seeds, choosing)
                print(f"{cell.label:60} {line(one)}", file=sys.stderr, flush=True)
        for cell, seed, samples in pool.imap(partial(run_cell, options.cache), cut_jobs):
            cut[cell, seed] = samples
    reported = summaries({key: samples for key, samples in found.items() if key[1] in seeds})
    for name in (*OURS, *ALL):
        those = [one[name] for one in reported.values() if name in one]
        if those:
            p50 = statistics.geometric_mean(one.ttft_p50_seconds for one in those)
            p90 = statistics.geometric_mean(one.ttft_p90_seconds for one in those)
            print(f"{name:40} geometric means of {len(those)}: p90 {p90:8.3f} s, p50 {p50:8.3f} s")
    compared = {"seeds": len(seeds), **compare(reported, HYPERTIER)}
    for name, of_all in (
        ("pooled", [one.ratio for one in of_cells.values()]),
        ("chosen_before", [one.fair_ratio for one in of_cells.values()]),
    ):
        compared |= counted(name, of_all, MAX_RATIO)
    compared |= counted("busiest", [one.busiest for one in of_cells.values()], MAX_BUSIEST)
    if cut:
        compared |= of_one_router(reported | summaries(cut))
    print(json.dumps(compared))


def line(one: CellFigures) -> str:
    """A cell's, for people."""
    return (
        f"p90 {one.ratio} of {one.peer}, {one.peer_p90} s; "
        f"{one.fair_ratio} of {one.fair_peer}; busiest/mean {one.busiest}"
    )


if __name__ == "__main__":
    main()
