"""`make bench NAME=routing`: what its last line says, without the hours of its cells."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "benchmarks" / "routing"
SCRIPT = """
import json, run
from cells import Cell
from hypertier.simulation.report import Summary
def one(p90, p50):
    return Summary(0.5, 0.0, p50, p90, 1.0, 1.0, None)
def cell(ours, first):
    return {"hypertier": ours, **{name: first if name == "ray" else one(8.0, 8.0) for name in run.ALL}}
results = {"a, seed 1": cell(one(1.0, 1.0), one(2.0, 1.0)), "b, seed 1": cell(one(4.0, 1.0), one(2.0, 4.0)),
           "b, seed 2": cell(one(4.0, 4.0), one(4.0, 4.0))}
cells = run.cells(run.VARIATIONS)
labels = {cell.label for cell in cells}
small = Cell("agent", num_replicas=2, num_requests=40)
found = run.run_cell((small, 5, {**run.OURS, **run.ALL}))[2]
three = {(Cell("agent", num_routers=n, cut=c), 1): {"hypertier": one(p, 1.0)}
         for n, c, p in ((1, False, 2.0), (3, False, 2.5), (3, True, 4.0))}
compared = run.compare(results, "hypertier") | run.of_one_router(three)
print(json.dumps([compared, len(cells), len(labels), sorted(found)]))
"""


BALANCE = """
import balance, json
sessions = [("a", 1.0), ("b", 3.0), ("a", 1.0), ("c", 3.0), ("a", 2.0)]
print(json.dumps([balance.known([4.0, 3.0, 3.0], 2), balance.seen(sessions, 2)]))
"""


def test_work_that_stays_where_its_session_began_is_as_far_apart_as_that_makes_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", BALANCE], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [6.0 / 5.0, 7.0 / 5.0]


def test_it_compares_means_with_the_best_single_peer_and_cells_with_their_own_best() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False
    )

    assert ran.returncode == 0, ran.stderr
    compared, num_cells, num_labels, policies = json.loads(ran.stdout)
    assert compared == {
        "p90_geomean_vs_best_peer": 1.0,
        "p90_of_worst_seed": 1.0,
        "worst_cell_vs_best_peer": 1.414,
        "cells_above_1_05": 1,
        "p50_geomean_vs_best_peer": 0.63,
        "three_routers_vs_one": 1.25,
        "three_routers_cut_vs_one": 2.0,
    }
    assert num_cells == num_labels >= 65
    assert {"hypertier", "hypertier, not shared", "llm-d", "llm-d (tuned)"} <= set(policies)
