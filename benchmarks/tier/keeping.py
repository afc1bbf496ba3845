"""For `upkeep.py`, in the engine environment: python keeping.py PORT ROUNDS. Prints microseconds as JSON.

A prompt of 131,072 tokens in chunks of 64, of blocks of 16: 2,048 chunks. CPU time, the least of all rounds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

from hypertier.tier.address import parse_l2_url
from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.backends.resp_ledger import RespLedger
from hypertier.tier.cache import L2Cache
from hypertier.tier.compat import chunk_keys
from hypertier.tier.credentials import FixedCredentials
from hypertier.tier.entries import Entries
from hypertier.tier.lookups import Verdicts
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import ThreadMover
from hypertier.tier.namespace import Namespace
from hypertier.tier.tenants import Tenants
from hypertier.tier.transfers import Transfers
from hypertier.tier.upkeep import Upkeep, batches

NUM_TOKENS = 131_072
TAG = b"a tenant"
CONFIG = SimpleNamespace(
    groups=[SimpleNamespace(tokens_per_block=16)],
    cache=SimpleNamespace(blocks_per_chunk=4, tokens_per_hash=16),
)


def entries(backend: MemoryBackend | RespBackend) -> Entries:
    """Chunks of 4 MiB, each one value."""
    namespace = Namespace({}, lambda: "bench", lambda: b"root")
    return Entries(
        backend,
        namespace,
        chunk_bytes=4 * 2**20 - 64,
        ttl_seconds=3600,
        lookup_timeout_seconds=5,
        io_timeout_seconds=5,
    )


def least(rounds: int, function: Callable[[], object], clock: Callable[[], float]) -> float:
    """The least seconds that a call takes."""
    taken = []
    for _ in range(rounds):
        begin = clock()
        function()
        taken.append(clock() - begin)
    return min(taken)


def main() -> None:
    """Measure."""
    port, rounds = int(sys.argv[1]), int(sys.argv[2])
    hashes = [os.urandom(32) for _ in range(NUM_TOKENS // 16)]
    keys = [TAG + key for key in chunk_keys(SimpleNamespace(config=CONFIG), hashes, NUM_TOKENS)]
    counters, memory = Counters(), MemoryBackend()
    backend = RespBackend(parse_l2_url(f"redis://127.0.0.1:{port}"), FixedCredentials())
    upkeep = Upkeep(entries(backend), Tenants(), counters, lambda what, error: None, RespLedger(backend))
    cache = L2Cache(
        ThreadMover(entries(memory), Transfers(1, 2**30), counters, lambda what, error: None),
        Verdicts(3600.0, counters),
        counters,
        upkeep=upkeep,
    )
    spec = SimpleNamespace(config=CONFIG)

    def note() -> None:
        chunks = chunk_keys(spec, hashes[:], NUM_TOKENS)
        cache.note_held(TAG + key for key in chunks)

    def look_up() -> None:
        for key in keys:
            cache.lookup("request", key)

    def go_through() -> None:
        for chunk in chunk_keys(spec, hashes, NUM_TOKENS):
            assert renewed[TAG + chunk]

    def renew() -> None:
        for batch in batches(keys):
            entries(backend).refresh(batch)

    renewed = dict.fromkeys(keys, True)
    costs = {
        "note_a_prompt": least(rounds, note, time.thread_time),
        "look_a_prompt_up": least(rounds, look_up, time.thread_time),
        "go_through_it_in_the_background": least(rounds, go_through, time.thread_time),
        "renew_all_of_it_in_the_background": least(rounds, renew, time.thread_time),
    }
    print(json.dumps({name: seconds * 1e6 for name, seconds in costs.items()}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
