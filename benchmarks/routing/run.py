"""The router's own code against other routers' policies, over many worlds: `make bench NAME=routing`.

    python benchmarks/routing/run.py [--seeds 11] [--quick] [--only TEXT] [--requests 1500] [--save FILE]
        [--peers FILE]

Below 1 is better: 0.9 is a tenth less time to the first token. The last line is one JSON object:
`p90_geomean_vs_best_peer` and `p50_geomean_vs_best_peer` compare geometric means over all cells with those of
the one peer that has the lowest, the worst seed's P90 in `p90_of_worst_seed`; `worst_cell_vs_best_peer`
compares each cell, the geometric mean of its seeds, with the best peer of just that cell, and is the largest
of these, of which `cells_above_1_05` are above that. `three_routers_vs_one` is P90 of three routers that tell
one another over that of one, the geometric mean over the workloads, without and with KV events;
`three_routers_cut_vs_one` the same where they hear nothing for a fifth of the time. Peers run at their
documented defaults and tuned on other seeds than these.
HYPERTIER_TRACE names a recorded trace, which is then one workload more.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from cells import RECORDED, REQUESTS_PER_COPY, TRACE_VARIABLE, Cell, measure, traffic
from peers import ALL, HYPERTIER, OURS, Build

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
SEED = ", seed "

Results = dict[str, Summary]


def cells(variations: tuple[dict[str, object], ...]) -> list[Cell]:
    """Every workload in every variation of the plain world."""
    workloads = [*WORKLOADS, *([RECORDED] if TRACE_VARIABLE in os.environ else [])]
    return [Cell(workload, **change) for change in variations for workload in workloads]  # type: ignore[arg-type]


def run_cell(job: tuple[Cell, int, Mapping[str, Build]]) -> tuple[Cell, int, Results]:
    """One cell with one seed: all the policies on the same traffic."""
    cell, seed, policies = job
    trace = traffic(cell, seed)
    return cell, seed, {name: measure(cell, seed, trace, build) for name, build in policies.items()}


def compare(results: Mapping[str, Results], ours: str) -> dict[str, float]:
    """The numbers of the last line, from "CELL, seed SEED" -> policy -> summary."""
    by_cell: dict[str, list[Results]] = {}
    by_seed: dict[str, list[Results]] = {}
    for label, found in results.items():
        cell, _, seed = label.rpartition(SEED)
        by_cell.setdefault(cell or label, []).append(found)
        by_seed.setdefault(seed if cell else "", []).append(found)

    def of_best(field: str, cells: Collection[Results]) -> float:
        """Ours over the peer that has the lowest geometric mean."""

        def mean(name: str) -> float:
            return statistics.geometric_mean(getattr(cell[name], field) for cell in cells)

        return mean(ours) / min(map(mean, ALL))

    of_cells = [of_best("ttft_p90_seconds", seeds) for seeds in by_cell.values()]
    return {
        "p90_geomean_vs_best_peer": round(of_best("ttft_p90_seconds", results.values()), 3),
        "p90_of_worst_seed": round(max(of_best("ttft_p90_seconds", cells) for cells in by_seed.values()), 3),
        "worst_cell_vs_best_peer": round(max(of_cells), 3),
        "cells_above_1_05": sum(ratio > 1.05 for ratio in of_cells),
        "p50_geomean_vs_best_peer": round(of_best("ttft_p50_seconds", results.values()), 3),
    }


def of_one_router(found: Mapping[tuple[Cell, int], Results]) -> dict[str, float]:
    """P90 of three routers over that of one, from (cell, seed) -> policy -> summary."""

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


def load(path: Path) -> dict[str, Results]:
    """What an earlier run saved."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    return {label: {name: Summary(**one) for name, one in cell.items()} for label, cell in saved.items()}


def save(path: Path, results: Mapping[str, Results]) -> None:
    """Write every number so far."""
    saved = {label: {name: asdict(one) for name, one in cell.items()} for label, cell in results.items()}
    path.write_text(json.dumps(saved, indent=1), encoding="utf-8")


def main() -> None:
    """Run the cells on all cores; a line for each, then means, then the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[11])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="two of the thirteen variations")
    which.add_argument("--only", default="", metavar="TEXT", help="the cells whose label has TEXT in it")
    parser.add_argument(
        "--requests",
        type=int,
        default=REQUESTS_PER_COPY,
        help="of each of the users side by side, four where there are 32 replicas or more",
    )
    parser.add_argument("--save", type=Path, help="write every number to this JSON file")
    parser.add_argument("--peers", type=Path, help="take the peers' numbers from the file of an earlier run")
    options = parser.parse_args()

    policies = OURS if options.peers else {**OURS, **ALL}
    known = load(options.peers) if options.peers else {}
    wanted = [
        replace(cell, num_requests=options.requests)
        for cell in cells(QUICK if options.quick else VARIATIONS)
        if options.only in cell.label
    ]
    if not wanted:
        parser.error(f"--only {options.only!r}: no cell's label has that in it, as 'agent: num_replicas=64'")
    jobs = [(cell, seed, policies) for cell in wanted for seed in options.seeds]
    cut_jobs = [
        (replace(cell, cut=True), seed, {HYPERTIER: OURS[HYPERTIER]})
        for cell, seed, _ in jobs
        if cell.num_routers > 1
    ]
    found_in: dict[tuple[Cell, int], Results] = {}
    results: dict[str, Results] = {}
    with multiprocessing.Pool() as pool:
        for cell, seed, found in pool.imap(run_cell, jobs, chunksize=1):
            label = f"{cell.label}{SEED}{seed}"
            found |= {name: known[label][name] for name in ALL if name not in found}
            found_in[cell, seed] = results[label] = found
            best = min(ALL, key=lambda name: found[name].ttft_p90_seconds)
            ours = found[HYPERTIER]
            ratio = ours.ttft_p90_seconds / found[best].ttft_p90_seconds
            print(
                f"{cell.label:70} p90 {ours.ttft_p90_seconds:8.3f} s, {ratio:5.2f} of {best}; "
                f"p50 {ours.ttft_p50_seconds:7.3f} s; busiest/mean {ours.imbalance_ratio:.2f}",
                file=sys.stderr,
                flush=True,
            )
            if options.save:
                save(options.save, results)
        found_in |= {(cell, seed): found for cell, seed, found in pool.imap(run_cell, cut_jobs)}
    for name in (*OURS, *ALL):
        p50 = statistics.geometric_mean(cell[name].ttft_p50_seconds for cell in results.values())
        p90 = statistics.geometric_mean(cell[name].ttft_p90_seconds for cell in results.values())
        print(f"{name:40} geometric means: p90 {p90:8.3f} s, p50 {p50:8.3f} s")
    compared = compare(results, HYPERTIER)
    if cut_jobs:
        compared |= of_one_router(found_in)
    print(json.dumps(compared))


if __name__ == "__main__":
    main()
