"""Measures clients, in the engine environment: one JSON line per round, client and operation.

python measure.py VALKEY_PORT ECHO_PORT ROUNDS BYTES SIZE...
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from clients import CLIENTS


def measure(operation: Callable[[], Any], num_calls: int) -> tuple[float, float]:
    """Wall and CPU seconds of the whole process."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(num_calls):
        operation()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Interleave the clients, so that all see the same machine."""
    valkey, echo, rounds, num_bytes, *sizes = map(int, sys.argv[1:])
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for size in sizes:
        num_calls = max(4, num_bytes // size)
        made = {name: make(echo if name == "bare socket" else valkey, size) for name, make in CLIENTS.items()}
        for get, put in made.values():
            put()
            get()
        for number in range(rounds):
            for name, (get, put) in made.items():
                put()
                for operation, call in (("get", get), ("set", put)):
                    wall, cpu = measure(call, num_calls)
                    row = {
                        "round": number,
                        "client": name,
                        "operation": operation,
                        "size": size,
                        "gigabytes": num_calls * size / 1e9,
                        "wall": wall,
                        "cpu": cpu,
                    }
                    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
