"""What the tier counts.

Names, units and meanings stand in `COUNTERS` and `GAUGES`; vLLM's /metrics shows counters with `_total`.
"""

from __future__ import annotations

import threading
from collections import Counter

PREFIX = "hypertier_l2_"
GAUGES = {
    "up": "1 while L2 answers lookups and loads, 0 while it is left alone after a failure.",
    "gate_open": "1 while L2 is asked, 0 while loading from it takes longer than computing.",
    "debt_seconds": "What lookups and loads have cost over what they saved and 2 % of computing.",
    "load_seconds_per_chunk": "What loading a chunk from L2 has taken lately.",
    "compute_seconds_per_chunk": "What computing a chunk has taken lately, once its request was scheduled.",
}
COUNTERS = {
    "lookup_hits": "Chunks that L2 said it holds.",
    "lookup_misses": "Chunks that L2 said it lacks, or could not be asked about.",
    "lookup_expired": "Lookups answered as a miss because L2 had not answered by the deadline.",
    "lookups_gated": "Lookups answered as a miss because computing takes less time than loading.",
    "read_bytes": "Bytes loaded from L2, headers not counted.",
    "write_bytes": "Bytes stored in L2, headers not counted.",
    "read_errors": "Lookups and loads that failed and became misses.",
    "write_errors": "Stores that failed.",
    "loads_absent": "Chunks that L2 had announced but no longer held when loaded.",
    "loads_given_up": "Loads of a request broken off because computing would have taken less time by now.",
    "integrity_failures": "Chunks whose header or checksum did not prove them; each became a miss.",
    "circuit_open": "Calls that were not made because L2 was failing; each became a miss.",
    "mover_losses": "Times that the process which moves chunks was lost and started anew.",
    "stores_skipped": "Chunks not stored because L2 was known to hold them.",
    "stores_dropped": "Chunks not stored because too many bytes were waiting to be stored.",
    "stores_over_quota": "Chunks not stored because too much of their tenant's quota was under way.",
    "quota_removals": "Chunks removed from L2 because their tenant kept more than its quota.",
    "chunks_renewed": "Chunks whose time to live began anew while the GPU or L1 held them.",
    "upkeep_errors": "Failed attempts to renew chunks, or to hold a tenant to its quota.",
}


class Counters:
    """Sums since the last `take` and since the start, by the names in `COUNTERS`.

    Added to by several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: Counter[str] = Counter()
        self._total: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        """Add to a name of `COUNTERS`; another one is a KeyError."""
        if name not in COUNTERS:
            raise KeyError(name)
        with self._lock:
            self._recent[name] += amount
            self._total[name] += amount

    def take(self) -> dict[str, int]:
        """Return what was added since the last call, and forget it."""
        with self._lock:
            recent = {name: amount for name, amount in self._recent.items() if amount}
            self._recent.clear()
            return recent

    def total(self, name: str) -> int:
        """Return everything added to a name since the start."""
        return self._total[name]
