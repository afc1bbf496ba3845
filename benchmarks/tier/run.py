"""`make bench NAME=tier`: what L2 costs an engine, next to the floor, to other clients, and to no L2 at all.

Everything runs on this machine over the loopback interface, in one run, interleaved. The last line is one
JSON object. `--parts` picks: cost, steps, shards, memory, faults, upkeep.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import cost
import faults
import memory
import shards
import steps
import upkeep
from support import HERE, Setting

from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.model import build_model

PARTS = {"cost": cost, "steps": steps, "shards": shards, "memory": memory, "faults": faults, "upkeep": upkeep}


def main() -> None:
    """Measure part by part; print tables, and the JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=50, help="moved per round, client and operation")
    parser.add_argument(
        "--job-chunks", default="1", help="of the part steps: chunks that one job loads, such as 1,8 for both"
    )
    parser.add_argument("--faults", default="", help="of the part faults: these alone, such as killed,slow")
    options = parser.parse_args()
    result: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        setting = Setting(
            find_engine_python(os.environ, HERE),
            build_model(Path(directory) / "model"),
            options.rounds,
            options.megabytes,
            tuple(map(int, options.job_chunks.split(","))),
            tuple(filter(None, options.faults.split(","))),
        )
        for name in options.parts.split(","):
            result |= PARTS[name].measure(setting)
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
