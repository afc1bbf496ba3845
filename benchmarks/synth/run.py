"""Synth of the reference over an empty CDK app that imports the same modules: `make bench NAME=synth`.

Three apps run as `python FILE`, in turns, PASSES times each, with the built-in template validator off and
on: `empty`; `bare`, the resources of the reference without a construct around them, as little as any app with
these templates takes; and `app`, the reference itself. Each writes into a folder that its last synth left, as
`cdk synth` does into `cdk.out`; so the reference's templates are not validated again. `one` is the reference
with a node more each time, which changes one template of four, the largest; `changed` has all of them
validated, and `first` is the reference into a new folder, where assets are copied, too.

Counted are CPU seconds of the process and its Node.js, and of the passes the best, since whatever else the
machine does only adds. The last line is one JSON object of ratios to the empty app; 1.0 would be no work.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
REFERENCE = ROOT / "examples" / "reference" / "deployment.yaml"
PASSES = 5
PACKAGES = ("aws_cdk", "hypertier", "hypertier_cdk", "infra")
# What the CDK CLI adds to the flags of cdk.json.
CLI_CONTEXT = {
    "aws:cdk:enable-path-metadata": True,
    "aws:cdk:enable-asset-metadata": True,
    "aws:cdk:disable-version-reporting": True,
}


def modules_of_app(outdir: Path) -> list[str]:
    """The modules of ours and of the CDK that `app.py` has imported when it ends.

    Without the one that sets up the process, or the empty app would be set up as ours is.
    """
    code = (
        "import runpy, sys; runpy.run_path('app.py');"
        f"print(*[name for name in sys.modules if name.partition('.')[0] in {PACKAGES!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(outdir, validator=False),
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in done.stdout.split() if name != "infra.process"]


def environment(outdir: Path, *, validator: bool, deployment: Path | None = None) -> dict[str, str]:
    """As the CDK CLI would start the app, with the flags of cdk.json and, if given, `-c deployment=FILE`."""
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    chosen = {"deployment": str(deployment)} if deployment else {}
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return inherited | {
        "CDK_OUTDIR": str(outdir),
        "CDK_CONTEXT_JSON": json.dumps(context | CLI_CONTEXT | chosen),
        "CDK_VALIDATION": "true" if validator else "false",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "PYTHONPATH": str(ROOT),
    }


def measure(
    command: Sequence[str], outdir: Path, *, validator: bool, deployment: Path | None = None
) -> tuple[float, float]:
    """CPU and wall-clock seconds of one run, Node.js included."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment(outdir, validator=validator, deployment=deployment),
        check=True,
        capture_output=True,
    )
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def with_more_nodes(more: int, folder: Path) -> Path:
    """The reference's deployment file with so many GPU nodes more, beside its manifests in `folder`."""
    shutil.copytree(REFERENCE.parent, folder, dirs_exist_ok=True)
    file = folder / REFERENCE.name
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    written["instanceGroups"][-1]["count"] += more
    file.write_text(yaml.safe_dump(written, sort_keys=False), encoding="utf-8")
    return file


def best_of(
    apps: Mapping[str, Sequence[str]], folder: Path, passes: int, *, validator: bool
) -> dict[str, tuple[float, float]]:
    """The least CPU and wall-clock seconds of each app, and of the reference with `one` or all `changed`, and
    at `first`."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in (*apps, "one", "changed", "first")}
    for number in range(passes):
        shutil.rmtree(folder / "app" / "validated", ignore_errors=True)
        runs["changed"].append(measure(apps["app"], folder / "app", validator=validator))
        for name, command in apps.items():
            runs[name].append(measure(command, folder / name, validator=validator))
        larger = with_more_nodes(1 + number, folder / "deployments")
        runs["one"].append(measure(apps["app"], folder / "app", validator=validator, deployment=larger))
        with tempfile.TemporaryDirectory() as new:
            runs["first"].append(measure(apps["app"], Path(new), validator=validator))
    return {
        name: (min(cpu for cpu, _ in found), min(wall for _, wall in found)) for name, found in runs.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passes", type=int, default=PASSES)
    passes = parser.parse_args().passes
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        templates = Path(folder) / "app"
        modules = modules_of_app(templates)
        apps = {
            "empty": [str(HERE / "empty.py"), *modules],
            "bare": [str(HERE / "bare.py"), str(templates), *modules],
            "app": [str(ROOT / "app.py")],
        }
        print(f"{'validator':<10}{'app':<8}{'CPU s':>8}{'wall s':>8}")
        for switch, validator in (("off", False), ("on", True)):
            best = best_of(apps, Path(folder), passes, validator=validator)
            for name, (cpu, wall) in best.items():
                print(f"{switch:<10}{name:<8}{cpu:>8.2f}{wall:>8.2f}")
                ratios[f"{name}_vs_empty_validator_{switch}"] = round(cpu / best["empty"][0], 3)
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
