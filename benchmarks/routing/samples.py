"""What each policy made of a cell with one seed, kept in a file for as long as the code is the same."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from cells import RECORDED, TRACE_VARIABLE, Cell, traffic
from peers import OURS, Build

import hypertier.simulation
from hypertier.router.peers.peers import BATCH_SECONDS
from hypertier.simulation.cluster import simulate
from hypertier.simulation.report import Summary, summarize

NUM_WAITS = 200
"""Of a sample's times to the first token so many are kept, evenly spaced in order of size."""
HERE = Path(__file__).parent
PACKAGE = Path(hypertier.simulation.__file__).parents[1]
OF_OURS = ("catalog.py", "routed.py", "scored.py")
"""Files of the simulation that no peer runs."""


@dataclass(frozen=True)
class Sample:
    """One policy, one cell, one seed. `waits` are seconds to the first token, of `num_requests` requests."""

    summary: Summary
    waits: Sequence[float]
    num_requests: int


Samples = Mapping[str, Sample]


def take(cell: Cell, seed: int, policies: Mapping[str, Build], folder: Path) -> dict[str, Sample]:
    """What `policies` make of the cell: from its file in `folder`, where the code is that of then."""
    path = folder / f"{_file_name(cell)}, seed {seed}.json"
    saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known = {name: _sample(saved[name]) for name in policies if _is_current(saved.get(name), name, cell)}
    missing = {name: build for name, build in policies.items() if name not in known}
    if missing:
        trace = traffic(cell, seed)
        for name, build in missing.items():
            outcome = simulate(trace, cell.spec, build, seed)
            waits = [job.first_token_at - job.request.at for job in outcome.jobs]
            known[name] = Sample(summarize(outcome), evenly(waits), len(waits))
            saved[name] = {"code": code(name, cell.workload), **asdict(known[name])}
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(saved), encoding="utf-8")
    return known


def evenly(values: Sequence[float]) -> list[float]:
    """All of a few values; of many, `NUM_WAITS` in even steps of rank, each from the middle of its step."""
    ordered = sorted(values)
    if len(ordered) <= NUM_WAITS:
        return ordered
    step = len(ordered) / NUM_WAITS
    return [ordered[int((i + 0.5) * step)] for i in range(NUM_WAITS)]


@cache
def code(policy: str, workload: str) -> str:
    """A hash of all that decides a sample: for peers without the router's code, which they do not run."""
    simulation = sorted((PACKAGE / "simulation").glob("*.py"))
    if policy in OURS:
        files = [*simulation, *sorted((PACKAGE / "router").rglob("*.py"))]
    else:
        files = [path for path in simulation if path.name not in OF_OURS]
        files.append(PACKAGE / "router" / "kv" / "holders.py")
    files += [HERE / "cells.py", HERE / "peers.py"]
    if workload == RECORDED:
        files.append(Path(os.environ[TRACE_VARIABLE]))
    found = hashlib.sha256(repr((BATCH_SECONDS, NUM_WAITS)).encode())
    for path in files:
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


def _is_current(saved: Mapping[str, object] | None, name: str, cell: Cell) -> bool:
    return saved is not None and saved["code"] == code(name, cell.workload)


def _sample(saved: Mapping[str, object]) -> Sample:
    return Sample(Summary(**saved["summary"]), saved["waits"], saved["num_requests"])  # type: ignore[arg-type]


def _file_name(cell: Cell) -> str:
    return re.sub(r"[^\w=., ]", "", f"{cell.label}, requests={cell.num_requests}")
