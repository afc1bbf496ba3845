"""What L2 traffic does to an engine's steps; `step_time.py` measures, in the engine environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support import HERE, Setting, on_other_cpus, valkey

from hypertier.lab.model import ModelShape, build_model

LARGE = ModelShape(num_layers=20)  # whose steps take some 20 ms here, as a 70B model's on GPUs
COLUMNS = {
    "clock_ratio": "by the clock",
    "clock_ratio_without_shortage": "without waiting for a CPU",
    "cpu_ratio": "CPU time",
    "blocked_ms": "blocked, ms a step",
    "calls_ms": "in calls, ms a step",
    "gigabytes_per_second": "GB/s",
}


def measure(setting: Setting) -> dict[str, float]:
    """Print a table for short steps and one for steps as long as a large model's; return both's ratios."""
    with tempfile.TemporaryDirectory() as directory:
        large = build_model(Path(directory) / "model", shape=LARGE)
        found = table(setting, setting.model)
        return found | {f"large_{name}": value for name, value in table(setting, large).items()}


def table(setting: Setting, model: Path) -> dict[str, float]:
    """Print a table, and return the ratios of plain and TLS traffic."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as servers:
        with on_other_cpus():
            port = servers.enter_context(valkey())
            tls_port = servers.enter_context(tls(port, Path(directory)))
        urls = [f"redis://127.0.0.1:{port}", f"rediss://localhost:{tls_port}", f"{directory}/ca.pem"]
        sizes = [str(size) for size in setting.job_chunks]
        printed = setting.run("step_time.py", [str(model), str(setting.rounds), *urls, *sizes])
    arms = json.loads(printed.splitlines()[-1])
    print(f"step time, {arms['neighbour']['quiet_ms']:.2f} ms when nothing is loaded")
    print("| traffic by | " + " | ".join(COLUMNS.values()) + " |")
    print("|---" * (1 + len(COLUMNS)) + "|")
    for name, arm in arms.items():
        print(f"| {name} | " + " | ".join(f"{arm[column]:.3f}" for column in COLUMNS) + " |")
    return {key: value for size in setting.job_chunks for key, value in ratios(arms, size).items()}


def ratios(arms: dict[str, dict[str, float]], job_chunks: int) -> dict[str, float]:
    """What jobs of a size make of a step."""
    without = "clock_ratio_without_shortage"
    arm, key = ("", "") if job_chunks == 1 else (f", {job_chunks} chunks a job", f"_{job_chunks}_chunks")
    process, tls_process, threads, tls_threads = (
        arms[f"{name}{arm}"][without] for name in ("process", "process, TLS", "threads", "threads, TLS")
    )
    return {
        f"step_time_ratio{key}": process,
        f"step_time_ratio_tls{key}": tls_process,
        f"step_time_ratio_threads{key}": threads,
        f"step_time_ratio_threads_tls{key}": tls_threads,
        f"step_time_vs_neighbour{key}": process / arms["neighbour"][without],
        f"step_time_vs_neighbour_tls{key}": tls_process / arms["neighbour, TLS"][without],
    }


@contextmanager
def tls(port: int, directory: Path) -> Iterator[int]:
    """TLS in front of a Valkey; the certificate's authority goes to `ca.pem` in the directory."""
    command = [sys.executable, HERE / "tls_relay.py", str(port), directory]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
