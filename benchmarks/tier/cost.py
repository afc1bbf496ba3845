"""What a byte from and to L2 costs an engine's process, next to the floor and to other clients."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import HERE, MIB, Setting, valkey

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
SIZES = (1 * MIB, 4 * MIB, 5 * MIB, 16 * MIB)  # 5 MiB: sixteen tokens of a 70B model in bfloat16


def measure(setting: Setting) -> dict[str, float]:
    """Print a table, and return the ratios at 4 MiB."""
    install_peers(setting.python)
    sizes = [str(size) for size in SIZES]
    with valkey() as port, echo() as echo_port:
        command = [str(port), str(echo_port), str(setting.rounds), str(setting.megabytes * 10**6), *sizes]
        printed = setting.run("measure.py", command, PYTHONPATH=str(PEERS))
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    costs = cpu_seconds_per_gigabyte(rows)
    for line in table(costs, rows):
        print(line)
    get = {client: costs[client, "get", 4 * MIB] for client, _, _ in costs}
    put = {client: costs[client, "set", 4 * MIB] for client, _, _ in costs}
    return {
        "get_cpu_vs_socket": get["hypertier"] / get["bare socket"],
        "set_cpu_vs_socket": put["hypertier"] / put["bare socket"],
        "lmcache_cpu_vs_get": get["LMCache redis://"] / get["hypertier"],
    }


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
