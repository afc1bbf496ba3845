"""What two worker processes do, against one: `python benchmarks/router/workers.py`, as root on Linux.

On two cores the engines and the load generator would be the limit of two workers. So each worker is held to
QUOTA of a core, by a control group of its own (cgroup v1's cpu.cfs_quota_us), and the rest of the machine
serves them. Two figures for one and for two workers, the best of PASSES: requests a second at saturation, and
CPU milliseconds a request of all workers together, without their supervisor. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from peers import Peer, hypertier
from run import cpu_seconds, engines, free_port, load, router

GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 50_000
QUOTA = 0.1
PASSES = 3
# name: body bytes, requests in flight, requests for each worker, mode. A pass takes 3 to 4 s: in a tenth of
# that, what the kernel lends a group at the end of a period decided what a worker got.
CASES = {
    "1k": (1024, 64, 20_000, "json"),
    "32k": (32 * 1024, 64, 10_000, "json"),
    "sse": (1024, 64, 8000, "sse"),
}


def pids_of(admin_port: int, workers: int) -> list[int]:
    """The worker processes, once all serve: the first alone answers already."""
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/healthz", timeout=10) as answer:
            pids = [one["pid"] for one in json.load(answer)["workers"] if one["serves"]]
        if len(pids) == workers:
            return pids
        time.sleep(0.1)


@contextmanager
def held(pids: Sequence[int], quota: float) -> Iterator[None]:
    """Each of these processes gets that much of a core, and before others as long as it does."""
    folders = [GROUPS / f"hypertier-bench-{os.getpid()}-{pid}" for pid in pids]
    try:
        for folder, pid in zip(folders, pids, strict=True):
            folder.mkdir()
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * quota)))
            (folder / "cpu.shares").write_text("65536")
            (folder / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for folder, pid in zip(folders, pids, strict=True):
            if folder.exists():
                if Path(f"/proc/{pid}").exists():
                    (GROUPS / "cgroup.procs").write_text(str(pid))
                time.sleep(0.1)
                folder.rmdir()


def flags(workers: int, admin_port: int, strategy: str) -> Peer:
    """A router of so many workers."""
    more = ("--workers", str(workers), "--metrics-port", str(admin_port), "--explain")
    return Peer(f"{workers} of {strategy}", hypertier(strategy, *more))


def measure(workers: int, strategy: str, case: str, quota: float, urls: list[str]) -> dict[str, float]:
    """One pass of one case."""
    body_bytes, concurrency, num_requests, mode = CASES[case]
    admin_port = free_port()
    with router(flags(workers, admin_port, strategy), urls) as (port, _):
        pids = pids_of(admin_port, workers)
        run = partial(load, port, body_bytes, concurrency, mode=mode)
        with held(pids, quota):
            run(num_requests=num_requests // 4)  # connections, caches
            before = sum(map(cpu_seconds, pids))
            got = run(num_requests=num_requests * workers)
            used = sum(map(cpu_seconds, pids)) - before
    return {
        "requests_per_second": got["requests_per_second"],
        "cpu_ms": used * 1000 / (num_requests * workers),
    }


def main() -> None:
    """Measure, print a table, then the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=PASSES)
    parser.add_argument("--case", action="append", choices=sorted(CASES))
    parser.add_argument("--strategy", default="prefixaware")
    parser.add_argument("--quota", type=float, default=QUOTA)
    arguments = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with engines() as urls:
        for case in arguments.case or CASES:
            rates, costs = {1: 0.0, 2: 0.0}, {1: float("inf"), 2: float("inf")}
            for _ in range(arguments.passes):
                for workers in (1, 2):
                    got = measure(workers, arguments.strategy, case, arguments.quota, urls)
                    print(f"{case}, {workers} worker(s): {got}", file=sys.stderr)
                    rates[workers] = max(rates[workers], got["requests_per_second"])
                    costs[workers] = min(costs[workers], got["cpu_ms"])
            print(
                f"| {case} | {rates[1]:.0f} | {rates[2]:.0f} | {rates[2] / rates[1]:.2f} "
                f"| {costs[1]:.3f} | {costs[2]:.3f} |"
            )
            found[case] = {
                "throughput_ratio": round(rates[2] / rates[1], 2),
                "cpu_ratio": round(costs[2] / costs[1], 2),
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
