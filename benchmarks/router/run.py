"""CPU per request of this router beside nginx and the Rust routers: `make bench NAME=router`.

Each router stands before the same fake engines, one after the other, PASSES times; the best pass counts,
since whatever else the machine does only adds. The last line is one JSON object:
`cpu_ms`, `nginx_ratio` and `best_rust_prefix_ratio`, each for bodies of 1 KiB, 32 KiB and 256 KiB and for
streamed answers of 32 events; ratios are ours to theirs, below 1 is better. The table above it has the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from peers import Peer, peers

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hypertier-bench-router"
PASSES = 3
NUM_ENGINES = 4
# name: body bytes, requests in flight, requests, mode
CASES = {
    "1k": (1024, 64, 6000, "json"),
    "32k": (32 * 1024, 32, 2000, "json"),
    "256k": (256 * 1024, 16, 400, "json"),
    "sse": (1024, 64, 1500, "sse"),
    "paced": (1024, 100, 300, "paced"),
}
LATENCY_REQUESTS = {"1k": 1000, "32k": 500, "256k": 200}
START_SECONDS = 60
LOAD_SECONDS = 120
SEEDS = count(1)  # new conversations are new in every run


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of a process tree's threads, in nanosecond steps where the kernel counts them."""
    nanoseconds = 0
    for process in tree(pid):
        for task in Path(f"/proc/{process}/task").iterdir():
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def rss_mib(pid: int) -> float:
    """Resident memory of a process tree."""
    pages = sum(int(Path(f"/proc/{process}/statm").read_text().split()[1]) for process in tree(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def free_port() -> int:
    """A port that was free a moment ago; so is the one 1000 above it, in all likelihood."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    return port if port < 64000 else port - 2000


def pin(core: int) -> list[str]:
    """The command prefix that keeps a process on one core, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    return (
        ["taskset", "-c", str(cores[core % len(cores)])] if len(cores) > 1 and shutil.which("taskset") else []
    )


@contextmanager
def engines() -> Iterator[list[str]]:
    """The fake engines' URLs."""
    command = [*pin(1), sys.executable, str(HERE / "engine.py"), str(NUM_ENGINES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield [f"http://127.0.0.1:{port}" for port in json.loads(process.stdout.readline())]
        finally:
            process.kill()


@contextmanager
def router(peer: Peer, engine_urls: list[str]) -> Iterator[tuple[int, int]]:
    """A running router's port and process."""
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w+") as log:
        port = free_port()
        command = [*pin(0), *peer.command(port, engine_urls, Path(folder))]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not answers(port, peer.tls):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    sys.exit(f"{peer.name} did not start: {log.read()[-2000:]}")
                time.sleep(0.1)
            yield port, process.pid
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def answers(port: int, tls: bool = False) -> bool:
    """One small chat comes back with 200."""
    try:
        load(port, 1024, 1, 1, "json", tls)
    except subprocess.CalledProcessError:
        return False
    return True


def load(
    port: int, body_bytes: int, concurrency: int, num_requests: int, mode: str, tls: bool = False
) -> dict[str, float]:
    """One run of the load generator."""
    arguments = [str(port), str(body_bytes), str(concurrency), str(num_requests), mode, str(next(SEEDS))]
    arguments += ["tls"] if tls else []
    command = [*pin(1), sys.executable, str(HERE / "load.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LOAD_SECONDS)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(
    peer: Peer, engine_urls: list[str], cases: list[str], results: dict[str, dict[str, float]]
) -> None:
    """One pass of all cases over one router; keeps the best of each figure."""
    mine = results.setdefault(peer.name, {})

    def keep(key: str, value: float, *, high: bool = False) -> None:
        mine[key] = (max if high else min)(mine.get(key, value), value)

    with router(peer, engine_urls) as (port, pid):
        for case in cases:
            body_bytes, concurrency, num_requests, mode = CASES[case]
            num_requests = int(num_requests * peer.share)
            load(
                port, body_bytes, concurrency, max(64, num_requests // 10), mode, peer.tls
            )  # connections, caches
            before = cpu_seconds(pid)
            got = load(port, body_bytes, concurrency, num_requests, mode, peer.tls)
            keep(f"cpu_ms.{case}", (cpu_seconds(pid) - before) * 1000 / num_requests)
            keep(f"rps.{case}", got["requests_per_second"], high=True)
            if case in LATENCY_REQUESTS:
                num_requests = int(LATENCY_REQUESTS[case] * peer.share)
                keep(f"p50_us.{case}", load(port, body_bytes, 1, num_requests, mode, peer.tls)["p50_us"])
        keep("rss_mib", rss_mib(pid), high=True)


def measure_direct(engine_urls: list[str], cases: list[str], results: dict[str, dict[str, float]]) -> None:
    """The load generator on an engine itself: what no router can beat."""
    port = int(engine_urls[0].rpartition(":")[2])
    mine = results.setdefault("(direct)", {})
    for case in cases:
        body_bytes, concurrency, num_requests, mode = CASES[case]
        got = load(port, body_bytes, concurrency, num_requests, mode)
        mine[f"rps.{case}"] = max(mine.get(f"rps.{case}", 0.0), got["requests_per_second"])
        if case in LATENCY_REQUESTS:
            p50 = load(port, body_bytes, 1, LATENCY_REQUESTS[case], mode)["p50_us"]
            mine[f"p50_us.{case}"] = min(mine.get(f"p50_us.{case}", p50), p50)


def summary(results: dict[str, dict[str, float]], cases: list[str]) -> dict[str, dict[str, float]]:
    """What the last line says."""
    ours = results["hypertier"]
    rust = [results[name] for name in ("vllm-router", "sglang-router") if name in results]
    found: dict[str, dict[str, float]] = {"cpu_ms": {}, "nginx_ratio": {}, "best_rust_prefix_ratio": {}}
    for case in (case for case in cases if case != "paced"):
        key = f"cpu_ms.{case}"
        found["cpu_ms"][case] = round(ours[key], 4)
        if "nginx" in results:
            found["nginx_ratio"][case] = round(ours[key] / results["nginx"][key], 2)
        if rust:
            found["best_rust_prefix_ratio"][case] = round(ours[key] / min(peer[key] for peer in rust), 3)
    return found


def table(results: dict[str, dict[str, float]], cases: list[str]) -> Iterator[str]:
    """Rows for people: CPU ms a request, requests/s, p50 added at one request in flight, memory."""
    timed = [case for case in cases if case in LATENCY_REQUESTS]
    columns = [f"cpu ms {case}" for case in cases] + [f"req/s {case}" for case in cases]
    columns += [f"+p50 us {case}" for case in timed] + ["RSS MiB"]
    yield "| router | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, mine in results.items():
        cells = [f"{mine[f'cpu_ms.{case}']:.3f}" if f"cpu_ms.{case}" in mine else "-" for case in cases]
        cells += [f"{mine[f'rps.{case}']:.0f}" for case in cases]
        for case in timed:
            added = mine[f"p50_us.{case}"] - results["(direct)"][f"p50_us.{case}"]
            cells.append("-" if name == "(direct)" else f"{added:.0f}")
        cells.append(f"{mine['rss_mib']:.0f}" if "rss_mib" in mine else "-")
        yield f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    """Measure, print the table, then the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=PASSES)
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="repeatable; all by default")
    parser.add_argument("--only", action="append", metavar="NAME", help="these routers; repeatable")
    parser.add_argument("--peers", type=Path, default=CACHE, help="where the peers are installed")
    arguments = parser.parse_args()
    cases = arguments.case or list(CASES)
    chosen = [peer for peer in peers(arguments.peers) if not arguments.only or peer.name in arguments.only]
    results: dict[str, dict[str, float]] = {}
    for number in range(arguments.passes):
        with engines() as urls:
            measure_direct(urls, cases, results)
            for peer in chosen:
                print(f"pass {number + 1}: {peer.name}", file=sys.stderr)
                measure(peer, urls, cases, results)
        print("\n".join(table(results, cases)), file=sys.stderr)
    print("\n".join(table(results, cases)))
    if "hypertier" in results:
        print(json.dumps(summary(results, cases)))


if __name__ == "__main__":
    main()
