"""What a lookup, a load and a store cost as L2 grows from one server to 64: it must stay linear.

A simulated cluster: small servers in one other process, each for an equal share of the slots, that know
nothing but EXISTS, GETEX, SET and CLUSTER SLOTS, redirect what is not theirs, and count what they are asked.
Cost is CPU time of the client's process, the least of all rounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

from support import HERE, Setting

from hypertier.tier.address import L2Address
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.credentials import FixedCredentials

NUM_SERVERS = (1, 2, 4, 8, 16, 32, 64)
NUM_KEYS = 256
VALUE_BYTES = 64 * 1024
SECONDS = 30.0


class Cluster:
    """Servers in a process of their own."""

    def __init__(self, num_servers: int) -> None:
        command = [sys.executable, HERE / "servers.py", str(num_servers)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._line())

    def take_counts(self) -> dict[str, int]:
        """What all servers together were asked since the last call: pieces received, and commands."""
        assert self._process.stdin is not None
        print("count", file=self._process.stdin, flush=True)
        return dict(json.loads(self._line()))

    def close(self) -> None:
        """End."""
        self._process.kill()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def measure(setting: Setting) -> dict[str, float]:
    """Print a line per size of the cluster, and return how much dearer a key is at 64 than at one."""
    print(f"{NUM_KEYS} keys: CPU microseconds a key, and requests to each server for a lookup of all")
    print("| servers | lookup | load | store | requests a server |")
    print("|---|---|---|---|---|")
    costs: dict[int, tuple[float, float, float]] = {}
    requests: dict[int, float] = {}
    for num_servers in NUM_SERVERS:
        costs[num_servers], requests[num_servers] = cost(num_servers, setting.rounds)
        cells = " | ".join(f"{each:.1f}" for each in costs[num_servers])
        print(f"| {num_servers} | {cells} | {requests[num_servers]:.2f} |", flush=True)
    one, half, most = costs[1], costs[32], costs[64]
    per_server = (half[0] - one[0]) * NUM_KEYS / 31
    print(f"another server costs a lookup {per_server:.0f} us up to 32, and beyond ", end="")
    print(f"{(most[0] - half[0]) * NUM_KEYS / 32:.0f} us")
    return {
        "shards_lookup_growth_ratio": (most[0] - half[0]) * NUM_KEYS / 32 / per_server,
        "shards_64_load_cpu_ratio": most[1] / one[1],
        "shards_64_store_cpu_ratio": most[2] / one[2],
        "shards_lookup_requests_per_server": max(requests.values()),
    }


def cost(num_servers: int, rounds: int) -> tuple[tuple[float, float, float], float]:
    """Microseconds of CPU a key for a lookup, a load and a store, and requests a server for a lookup."""
    cluster = Cluster(num_servers)
    backend = RespBackend(L2Address("127.0.0.1", cluster.port), FixedCredentials())
    keys = [b"ht1:namespace:%032x:0" % number for number in range(NUM_KEYS)]
    value = [memoryview(bytearray(VALUE_BYTES))]

    def store() -> None:
        for key in keys:
            backend.put(key, value, 3600, SECONDS)

    def load() -> None:
        for key in keys:
            assert backend.get_into(key, value, 3600, SECONDS) == VALUE_BYTES

    def look_up() -> None:
        assert all(backend.exists_many(keys, SECONDS))

    store()  # learns the slots, and connects
    look_up()
    cluster.take_counts()
    look_up()
    counts = cluster.take_counts()
    assert counts["commands"] == NUM_KEYS
    measured = tuple(least_cpu(each, rounds) / NUM_KEYS * 1e6 for each in (look_up, load, store))
    backend.close()
    cluster.close()
    return measured, counts["pieces"] / num_servers  # type: ignore[return-value]


def least_cpu(operation: Callable[[], None], rounds: int) -> float:
    """CPU seconds of the best of several passes."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        operation()
        best = min(best, time.process_time() - begin)
    return best
