"""Synth of the reference over an empty CDK app that imports the same modules: `make bench NAME=synth`.

Both run as `python FILE`, in turns, PASSES times each, with the built-in template validator off and on.
Counted are CPU seconds of the process and its Node.js, and of the passes the best, since whatever else the
machine does only adds. The last line is one JSON object: `app_vs_empty_validator_off` and
`app_vs_empty_validator_on`, ours to the empty app's; 1.0 would be no work at all.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PASSES = 5
PACKAGES = ("aws_cdk", "hypertier", "hypertier_cdk", "infra")
APPS = {"empty": [str(Path(__file__).parent / "empty.py")], "app": [str(ROOT / "app.py")]}


def modules_of_app() -> list[str]:
    """The modules of ours and of the CDK that `app.py` has imported when it ends."""
    code = (
        "import runpy, sys; runpy.run_path('app.py');"
        f"print(*[name for name in sys.modules if name.partition('.')[0] in {PACKAGES!r}])"
    )
    with tempfile.TemporaryDirectory() as outdir:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment(outdir, validator=False),
            check=True,
            capture_output=True,
            text=True,
        )
    return done.stdout.split()


def environment(outdir: str, *, validator: bool) -> dict[str, str]:
    """As the CDK CLI would start the app, with the flags of cdk.json."""
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return inherited | {
        "CDK_OUTDIR": outdir,
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_VALIDATION": "true" if validator else "false",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "PYTHONPATH": str(ROOT),
    }


def measure(command: list[str], *, validator: bool) -> tuple[float, float]:
    """CPU and wall-clock seconds of one run, Node.js included."""
    with tempfile.TemporaryDirectory() as outdir:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment(outdir, validator=validator),
            check=True,
            capture_output=True,
        )
        wall = time.monotonic() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passes", type=int, default=PASSES)
    passes = parser.parse_args().passes
    APPS["empty"] += modules_of_app()

    ratios = {}
    print(f"{'validator':<10}{'app':<8}{'CPU s':>8}{'wall s':>8}")
    for name, validator in (("off", False), ("on", True)):
        runs: dict[str, list[tuple[float, float]]] = {app: [] for app in APPS}
        for _ in range(passes):
            for app, command in APPS.items():
                runs[app].append(measure(command, validator=validator))
        best = {
            app: (min(cpu for cpu, _ in found), min(wall for _, wall in found)) for app, found in runs.items()
        }
        for app, (cpu, wall) in best.items():
            print(f"{name:<10}{app:<8}{cpu:>8.2f}{wall:>8.2f}")
        ratios[f"app_vs_empty_validator_{name}"] = round(best["app"][0] / best["empty"][0], 3)
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
