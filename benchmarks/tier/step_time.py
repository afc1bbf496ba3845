"""Engine steps with and without L2 traffic in the same process, in the engine environment.

python step_time.py MODEL VALKEY_PORT ROUNDS

One request decodes; during every other run of steps, chunks of 4 MiB are loaded through the tier's threads at
`BYTES_PER_SECOND`. Prints one JSON object: for runs with and without, the least median of the step times in
milliseconds, their ratio, and what was loaded.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time

from vllm import LLM, SamplingParams

from hypertier.tier.address import L2Address
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.cache import L2Cache
from hypertier.tier.credentials import FixedCredentials
from hypertier.tier.entries import Entries
from hypertier.tier.lookups import Verdicts
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import ThreadMover
from hypertier.tier.namespace import Namespace
from hypertier.tier.transfers import Transfers

CHUNK_BYTES = 4 * 1024 * 1024 - 64
BYTES_PER_SECOND = 250_000_000
STEPS = 100


class Traffic:
    """Loads a chunk again and again while `is_on`, never more than four at a time."""

    def __init__(self, port: int) -> None:
        self.is_on = threading.Event()
        self.num_loaded = 0
        self._is_over = False
        counters = Counters()
        mover = ThreadMover(
            Entries(
                RespBackend(L2Address("127.0.0.1", port), FixedCredentials()),
                Namespace({}, lambda: "bench", lambda: b"root"),
                chunk_bytes=CHUNK_BYTES,
                ttl_seconds=3600,
                lookup_timeout_seconds=5,
                io_timeout_seconds=5,
            ),
            Transfers(4, 2**30),
            counters,
            lambda what, error: None,
        )
        self._cache = L2Cache(mover, Verdicts(5.0, counters), counters)
        self._slots = [memoryview(bytearray(CHUNK_BYTES)) for _ in range(4)]
        self._cache.store(0, [b"key"], self._slots[:1])
        self._cache.drain()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._is_over = True
        self.is_on.set()
        self._thread.join()
        self._cache.close(10)

    def _run(self) -> None:
        number = 0
        while self.is_on.wait() and not self._is_over:
            number += 1
            self._cache.load(number, [b"key"], [self._slots[number % 4]])
            time.sleep(CHUNK_BYTES / BYTES_PER_SECOND)
            self.num_loaded += sum(len(job.moved) for job in self._cache.take_finished())


def main() -> None:
    """Alternate between quiet and traffic within one long decode."""
    model, port, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    engine = LLM(
        model=model,
        dtype="float32",
        max_model_len=8192,
        enforce_eager=True,
        kv_cache_memory_bytes=64 * 1024 * 1024,
        seed=0,
    ).llm_engine
    traffic = Traffic(port)
    engine.add_request(
        "decode",
        "Measure steps. " * 20,
        SamplingParams(temperature=0, max_tokens=STEPS * (2 * rounds + 1), ignore_eos=True),
    )
    medians: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(STEPS):
        engine.step()
    begin_loaded, seconds = traffic.num_loaded, 0.0
    for number in range(2 * rounds - 1):
        is_on = number % 2 == 1
        (traffic.is_on.set if is_on else traffic.is_on.clear)()
        times = []
        for _ in range(STEPS):
            begin = time.perf_counter()
            engine.step()
            times.append(time.perf_counter() - begin)
        medians[is_on].append(statistics.median(times))
        seconds += sum(times) if is_on else 0.0
    quiet, busy = min(medians[False]), min(medians[True])
    loaded = (traffic.num_loaded - begin_loaded) * CHUNK_BYTES
    traffic.close()
    result = {"quiet_ms": quiet * 1e3, "traffic_ms": busy * 1e3, "ratio": busy / quiet}
    print(json.dumps(result | {"gigabytes_per_second": loaded / seconds / 1e9}))


if __name__ == "__main__":
    main()
