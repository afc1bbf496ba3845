"""What the router's process holds: `python benchmarks/router/memory.py`, on Linux.

Three rounds, each on a router of its own. `prefixes`: prompts of 32 KiB until the index has heard of a
million distinct prefixes (a new prompt has one for each block behind the system prompt), at the default size
of the index. `requests`: 200,000 requests in four parts before an index that is full after the first; what
grows after that is a leak. `idle`: 10,000 connections that say nothing. The last line is JSON: MiB, files.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from load import SYSTEM_SHARE
from peers import Peer, hypertier
from run import engines, free_port, load, router, rss_mib

from hypertier.router.api.openai import BLOCK_ENDS

NUM_PREFIXES = 1_000_000
NUM_REQUESTS, NUM_PARTS = 200_000, 4
NUM_IDLE = 10_000
PROMPT_BYTES = 32 * 1024
CROWD = """
import socket, sys
crowd = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print(len(crowd), flush=True)
sys.stdin.read()
"""


@contextmanager
def alone(urls: list[str], *more: str) -> Iterator[tuple[int, int, int]]:
    """A router's port, process, and port of its metrics."""
    admin_port = free_port()
    flags = ("--metrics-port", str(admin_port), *more)
    with router(Peer("hypertier", hypertier("prefixaware", *flags)), urls) as (port, pid):
        yield port, pid, admin_port


def metric(admin_port: int, name: str) -> float:
    """The sum of a metric's series."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.MULTILINE))


def files(pid: int) -> int:
    """Open files of a process, sockets among them."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def prefixes(urls: list[str]) -> dict[str, float]:
    """Index and memory once a million prefixes were heard of; half of the prompts are new ones."""
    each = sum(PROMPT_BYTES * SYSTEM_SHARE < end <= PROMPT_BYTES for end in BLOCK_ENDS)
    num_requests = -(-2 * NUM_PREFIXES // each)
    with alone(urls) as (port, pid, admin_port):
        before = rss_mib(pid)
        for _ in range(16):  # each within the load generator's time
            load(port, PROMPT_BYTES, 32, num_requests // 16, "json")
        index = metric(admin_port, "hypertier_router_index_bytes") / 2**20
        return {"requests": num_requests, "before": before, "after": rss_mib(pid), "index": index}


def requests(urls: list[str]) -> dict[str, object]:
    """Memory, files and requests in flight after each part."""
    parts = []
    with alone(urls, "--index-bytes", str(4 * 2**20)) as (port, pid, admin_port):
        for _ in range(NUM_PARTS):
            load(port, 1024, 64, NUM_REQUESTS // NUM_PARTS, "json")
            time.sleep(1.0)  # until the clients' ends were seen
            in_flight = metric(admin_port, "hypertier_router_in_flight")
            parts.append({"rss": rss_mib(pid), "files": files(pid), "in_flight": in_flight})
    return {"parts": parts}


def idle(urls: list[str]) -> dict[str, float]:
    """Memory before and beside the crowd."""
    with alone(urls, "--idle-timeout", "3600") as (port, pid, _):
        before = rss_mib(pid)
        command = [sys.executable, "-c", CROWD, str(port), str(NUM_IDLE)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
            assert crowd.stdout is not None
            crowd.stdout.readline()
            while files(pid) < NUM_IDLE:
                time.sleep(0.1)
            found = {"before": before, "beside": rss_mib(pid)}
            crowd.kill()
    return found


def main() -> None:
    """Measure and print."""
    rounds = {"prefixes": prefixes, "requests": requests, "idle": idle}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--round", action="append", choices=sorted(rounds))
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found: dict[str, object] = {}
    with engines() as urls:
        for name in arguments.round or rounds:
            found[name] = rounds[name](urls)
            print(f"{name}: {found[name]}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    assert Path("/proc/self/fd").exists()
    main()
