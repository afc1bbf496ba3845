"""How much memory the tier takes after ever more chunks: python footprint.py URL. Prints one JSON line.

Each chunk is looked up for a request of its own, which stays open for a while, as many as an engine serves at
once, then stored, and used. Chunks are small: only their number matters.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import deque
from pathlib import Path

from hypertier.tier.cache import L2Cache
from hypertier.tier.lookups import Verdicts
from hypertier.tier.mapping import map_shared, new_shared
from hypertier.tier.metrics import Counters
from hypertier.tier.mover_plan import MoverPlan, build_upkeep
from hypertier.tier.mover_process import ProcessMover
from hypertier.tier.settings import TierSettings

CHUNK_BYTES = 4096
NUM_SLOTS = 256
CHUNKS_PER_REQUEST = 64
OPEN_REQUESTS = 256
LOOKS = (0, 65_536, 262_144, 524_288, 1_048_576)


def main() -> None:
    """Store and look up, and look at both processes now and then."""
    shared = new_shared("l1", NUM_SLOTS * CHUNK_BYTES)
    l1 = map_shared(shared, 0, NUM_SLOTS * CHUNK_BYTES)
    before = private_mib(os.getpid())
    settings = TierSettings(url=sys.argv[1], io_timeout_ms=20_000, stripe_bytes=64 * 1024)
    counters = Counters()
    plan = MoverPlan(settings, "bench", {}, CHUNK_BYTES)
    common = (lambda: b"root", counters, lambda what, error: print(what, error, file=sys.stderr))
    mover = ProcessMover(plan, shared, 0, len(l1), *common)
    upkeep = build_upkeep(plan, *common)
    cache = L2Cache(mover, Verdicts(20.0, counters), counters, upkeep=upkeep)
    rows, requests = [], deque[str]()
    number = 0
    for look in LOOKS:
        while number < look:
            request = f"r{number}"
            requests.append(request)
            keys = [(number + i).to_bytes(36, "big") for i in range(CHUNKS_PER_REQUEST)]
            while None in [cache.lookup(request, key) for key in keys]:
                cache.flush()
                time.sleep(0.0005)
            cache.store(number, keys, range(CHUNKS_PER_REQUEST), request)
            cache.drain()
            cache.take_finished()
            cache.note_held(keys)
            number += CHUNKS_PER_REQUEST
            if len(requests) > OPEN_REQUESTS:
                cache.forget_request(requests.popleft())
        if not number:
            cache.lookup("first", b"first")
            cache.flush()
            time.sleep(1.0)  # until the mover has started
        gc.collect()
        assert mover.pid is not None
        rows.append(
            {
                "chunks": number,
                "engine_mib": private_mib(os.getpid()) - before,
                "mover_mib": private_mib(mover.pid),
            }
        )
    cache.close(10)
    print(json.dumps(rows))


def private_mib(pid: int) -> float:
    """Memory that a process does not share with others, in MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return (sizes["Private_Clean"] + sizes["Private_Dirty"]) / 1024


if __name__ == "__main__":
    main()
