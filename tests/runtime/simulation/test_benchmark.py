"""`make bench NAME=routing`: what its last line says, without the hours of its cells."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks" / "routing"

SUMMARY = """
import json
from hypertier.simulation.report import Summary
from samples import Sample
def one(p90, p50=1.0, busiest=1.0):
    return Summary(0.5, 0.0, p50, p90, 1.0, busiest, None)
def sample(waits, busiest=1.0):
    return Sample(one(1.0, busiest=busiest), waits, len(waits))
"""
COMPARED = """
import run
from cells import Cell
def cell(ours, first):
    return {"hypertier": ours, **{name: first if name == "ray" else one(8.0, 8.0) for name in run.ALL}}
a, b = Cell("a"), Cell("b")
results = {(a, 1): cell(one(1.0, 1.0), one(2.0, 1.0)), (b, 1): cell(one(4.0, 1.0), one(2.0, 4.0)),
           (b, 2): cell(one(4.0, 4.0), one(4.0, 4.0))}
three = {(Cell("agent", num_routers=n, cut=c), 1): {"hypertier": one(p, 1.0)}
         for n, c, p in ((1, False, 2.0), (3, False, 2.5), (3, True, 4.0))}
cells = run.cells(run.VARIATIONS)
print(json.dumps([run.compare(results, "hypertier") | run.of_one_router(three),
                  len(cells), len({cell.label for cell in cells})]))
"""
POOLED = """
import random
from hypertier.figures import quantile
from pooled import Pool
draw = random.Random(3)
found = []
for share in (0.5, 0.9, 0.99, 1.0):
    waits = [[draw.random() for _ in range(draw.randrange(1, 60))] for _ in range(4)]
    times = [draw.randrange(1, 3) for _ in waits]
    every = [wait for one, n in zip(waits, times) for wait in one * n]
    found.append([Pool([sample(one) for one in waits]).quantile(share, times), quantile(every, share)])
print(json.dumps(found))
"""
LUCKY = """
import random
from pooled import above, best, figures
draw = random.Random(4)
names = [f"peer {i}" for i in range(20)]
def worlds(ours):
    return {name: [sample([scale * s * draw.lognormvariate(0, 1) for _ in range(100)], 1.2) for s in hard]
            for name, scale in (("ours", ours), *((name, 1.0) for name in names))}
found = {}
for ours in (1.0, 1.5):
    hard = [draw.lognormvariate(0, 1) for _ in range(6)]
    cells = [(worlds(ours), best(worlds(ours), names)) for _ in range(12)]
    of_cells = [figures(cell, "ours", names, fair) for cell, fair in cells]
    found[str(ours)] = [above([one.ratio for one in of_cells], 1.05),
                   above([one.fair_ratio for one in of_cells], 1.05),
                   sum(one.fair_ratio.value for one in of_cells) / 12]
print(json.dumps([found, of_cells[0].busiest.value, of_cells[0].busiest.low]))
"""
KEPT = """
import sys
from pathlib import Path
import samples
from cells import Cell
from run import ALL, OURS, run_cell
def policies(*names):
    return {name: build for name, build in {**OURS, **ALL}.items() if name in names}
def broken(world):
    raise RuntimeError("was run")
folder, small = Path(sys.argv[1]), Cell("agent", num_replicas=2, num_requests=40)
first = run_cell(folder, (small, 5, {**OURS, **ALL}))[2]
again = run_cell(folder, (small, 5, dict.fromkeys({**OURS, **ALL}, broken)))[2]
samples.code = lambda policy, workload: "other" if policy == "ray" else "unknown"
def outcome(policies):
    try:
        run_cell(folder, (small, 5, policies))
    except RuntimeError as error:
        return str(error)
print(json.dumps([first == again, sorted(first), len(first["ray"].waits), outcome({"ray": broken})]))
"""
CODE = """
from pathlib import Path
import samples
read = []
plain = Path.read_bytes
Path.read_bytes = lambda path: read.append(str(path.relative_to(samples.PACKAGE.parents[1]))) or plain(path)
of_peer, peers_files = samples.code("ray", "agent"), sorted(read)
read.clear()
print(json.dumps([peers_files, sorted(set(read)) if samples.code("hypertier", "agent") else []]))
"""
BALANCE = """
import balance
sessions = [("a", 1.0), ("b", 3.0), ("a", 1.0), ("c", 3.0), ("a", 2.0)]
alike = [(4.0, "x", 1.0), (4.0, "x", 1.0), (4.0, "y", 2.0), (5.0, "x", 1.0)]
print(json.dumps([balance.known([4.0, 3.0, 3.0], 2), balance.seen(sessions, 2), balance.copied(alike, 2),
                  balance.copied([(9.0, "", 0.0), (1.0, "", 0.0)], 2)]))
"""
FORCED = """
from forced import evenness
from run import ALL
def policies(own, fast, slow):
    rest = {name: [sample([9.0], 3.0)] * 2 for name in ALL}
    return {**rest, "hypertier": [sample([1.0], own)] * 2,
            "ray": [sample([1.09], fast - 0.1), sample([1.09], fast + 0.1)],
            "llm-d": [sample([1.2], slow)] * 2}
print(json.dumps([str(evenness(policies(*case), hindsight)) for *case, hindsight in (
    (1.1, 2.0, 2.0, 1.0), (1.2, 1.05, 1.0, 1.0), (1.2, 1.15, 1.0, 1.08), (1.2, 1.15, 1.0, 1.15))]))
"""
MOVED = """
import sys
from cells import Cell, traffic
from moving import Planned, apart, evened, moved, p90
from hypertier.simulation.cluster import simulate
cell = Cell("conversation", num_replicas=4, num_requests=200)
def lopsided(world):
    return Planned([0 if number % 3 else number % 4 for number in range(200)])
before = simulate(traffic(cell, 5), cell.spec, lopsided, 5)
one = moved(cell, before, 1, 1.1)
changed = [job for job in before.jobs if one[job.number] != job.replica]
print(json.dumps([apart(before.busy_seconds),
                  evened(cell, 5, lopsided, 1.1, 1.1), evened(cell, 5, lopsided, 0.0, 1.1),
                  len({job.request.session for job in changed}),
                  sorted({job.replica for job in changed})]))
"""


def said(script: str, *arguments: str) -> Any:
    """What the script prints, run beside the benchmark's files."""
    ran = subprocess.run(
        [sys.executable, "-c", SUMMARY + script, *arguments],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_work_that_stays_where_its_session_began_is_as_far_apart_as_that_makes_it() -> None:
    known, seen, copied, hopeless = said(BALANCE)

    assert (known, seen) == (6.0 / 5.0, 7.0 / 5.0)
    assert copied == [21.0 / 20.0, 11.0 / 10.5], "x is computed on both, y on one"
    assert hopeless is None


def test_a_cell_is_forced_where_neither_a_peer_as_fast_nor_hindsight_comes_nearer_to_even() -> None:
    met, by_peer, by_hindsight, forced = said(FORCED)

    assert met.startswith("met ")
    assert by_peer.startswith("a peer does ")
    assert "peer 1.05 ray" in by_peer, "of the policies as fast, the mean of its seeds"
    assert "at any price 1.00 llm-d at 1.2 times" in by_peer
    assert by_hindsight.startswith("hindsight does ")
    assert forced.startswith("forced ")


def test_hindsight_moves_sessions_from_the_busiest_as_long_as_nobody_waits_longer() -> None:
    before, after, without_slack, num_sessions, replicas = said(MOVED)

    assert before > 1.5
    assert after <= 1.1
    assert without_slack == before, "no run is as fast as that"
    assert (num_sessions, replicas) == (1, [0])


def test_it_compares_means_with_the_best_single_peer_and_cells_with_their_own_best() -> None:
    compared, num_cells, num_labels = said(COMPARED)

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


def test_a_quantile_of_several_seeds_is_that_of_all_their_requests() -> None:
    for pooled, of_all in said(POOLED):
        assert pooled == of_all


def test_a_peer_chosen_on_other_seeds_is_not_the_luckiest_on_these() -> None:
    found, busiest, busiest_low = said(LUCKY)

    as_good, worse = found["1.0"], found["1.5"]
    assert as_good[0][0] > as_good[1][0], "the best of twenty on the same seeds looks better than it is"
    assert as_good[2] == pytest.approx(1.0, abs=0.1)
    assert as_good[1][1] <= 2
    assert worse[0][1] == 12
    assert worse[1][1] >= 9
    assert (busiest, busiest_low) == (pytest.approx(1.2), pytest.approx(1.2))


def test_what_was_run_is_not_run_again_until_the_code_changes(tmp_path: Path) -> None:
    is_same, policies, num_waits, of_changed = said(KEPT, str(tmp_path))

    assert is_same
    assert {"hypertier", "hypertier, not shared", "llm-d", "llm-d (tuned)"} <= set(policies)
    assert num_waits == 40
    assert of_changed == "was run"


def test_a_peer_is_run_again_where_its_own_code_changes_and_not_where_the_routers_does() -> None:
    of_peer, of_ours = said(CODE)

    assert any(path.endswith("simulation/peers.py") for path in of_peer)
    assert any(path.endswith("simulation/engine.py") for path in of_peer)
    assert not any(path.endswith("router/strategies/scoring.py") for path in of_peer)
    assert {path for path in of_ours if path.endswith("router/strategies/scoring.py")}
    assert {path for path in of_ours if path.endswith("simulation/engine.py")}
