"""Receives a value again and again, for `step_time.py`.

python neighbour.py URL BYTES SLOTS BYTES_PER_SECOND [CA_FILE]

Values go into one slot after the other, as into L1: into one alone they would stay in the CPU's cache.

Reads "go" and "stop", a line each, and answers "stop" with how many values it has received so far.
"""

from __future__ import annotations

import sys
import threading
import time

from hypertier.tier.address import parse_l2_url
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.credentials import FixedCredentials


def main() -> None:
    """Serve until the end of the input."""
    url, num_bytes, num_slots, rate = sys.argv[1], *map(int, sys.argv[2:5])
    backend = RespBackend(parse_l2_url(url), FixedCredentials(), *sys.argv[5:])
    slots = [memoryview(bytearray(num_bytes)) for _ in range(num_slots)]
    backend.put(b"neighbour", slots[:1], 3600, 20)
    is_on, num_received = threading.Event(), 0

    def receive() -> None:
        nonlocal num_received
        due = 0.0
        while is_on.wait():
            slot = slots[num_received % num_slots]
            backend.get_into(b"neighbour", [slot], 3600, 20)
            num_received += 1
            now = time.perf_counter()
            due = max(due + num_bytes / rate, now - 0.1)
            time.sleep(max(0.0, due - now))

    threading.Thread(target=receive, daemon=True).start()
    for word in sys.stdin:
        if word.strip() == "go":
            is_on.set()
        else:
            is_on.clear()
            print(num_received, flush=True)


if __name__ == "__main__":
    main()
