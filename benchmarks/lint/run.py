"""CPU time of `hypertier lint` over fifty manifests, interpreter start included; the best of several runs."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

NUM_FILES = 50
NUM_RUNS = 7
ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "examples" / "reference" / "llama-70b.yaml"


def cpu_seconds(command: list[str]) -> float:
    """User and system seconds that a process takes, as the kernel counts them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command[:3])} ended with {done.returncode}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Write fifty files, lint them, print one JSON object."""
    hypertier = Path(sys.prefix) / "bin" / "hypertier"
    text = REFERENCE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number in range(NUM_FILES):
            file = Path(folder) / f"endpoint-{number}.yaml"
            file.write_text(text.replace("name: llama-70b", f"name: llama-70b-{number}"), encoding="utf-8")
            files.append(str(file))
        runs = [cpu_seconds([str(hypertier), "lint", *files]) for _ in range(NUM_RUNS)]
    print(f"{NUM_RUNS} runs of {NUM_FILES} files on {os.cpu_count()} cores:", *(f"{run:.3f}" for run in runs))
    print(json.dumps({"cpu_seconds_50_files": round(min(runs), 3)}))


if __name__ == "__main__":
    main()
