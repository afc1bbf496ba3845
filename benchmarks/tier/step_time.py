"""What L2 traffic does to the steps of an engine in the same process, in the engine environment.

python step_time.py MODEL ROUNDS PLAIN_URL TLS_URL CA_FILE JOB_CHUNKS...

One request decodes. Runs of steps without traffic take turns with runs in which chunks of 4 MiB are loaded at
`BYTES_PER_SECOND`, asked for between the steps, as vLLM does, by jobs of `JOB_CHUNKS` chunks (of several
numbers each in runs of its own; what L2 holds of a prompt is one job): by threads of the process, by the
mover process, and, to compare, by a process that receives as many bytes and has nothing to do with the
engine.

The engine's thread has one CPU, everything else shares the others. Of each run the kernel tells how long that
thread ran, and how long it was ready to run while others had its CPU: that is the machine's shortage, not the
tier's doing. What is left of the clock is time that it was blocked, behind the interpreter's lock above all.
Prints one JSON object: for each arm the medians over all rounds, each compared with the quiet runs around it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm import LLM, SamplingParams

from hypertier.tier.cache import L2Cache
from hypertier.tier.lookups import Verdicts
from hypertier.tier.mapping import map_shared, new_shared
from hypertier.tier.metrics import Counters
from hypertier.tier.mover_plan import MoverPlan, build_mover, build_upkeep
from hypertier.tier.mover_process import ProcessMover
from hypertier.tier.settings import TierSettings

CHUNK_BYTES = 4 * 1024 * 1024 - 4096
BYTES_PER_SECOND = 250_000_000
NUM_SLOTS = 8  # or those of two jobs, where that is more
STEPS = 60
KEY = b"k" * 36


class Quiet:
    """No traffic."""

    num_loaded = 0

    def step(self) -> None:
        """Do nothing."""

    def rest(self) -> None:
        """Do nothing."""


class Tier(Quiet):
    """Loads a chunk again and again, as the scheduler would ask for it, `job_chunks` times a job."""

    def __init__(self, mover: str, job_chunks: int, url: str, ca_file: str = "") -> None:
        self._job_chunks = job_chunks
        self._num_slots = max(NUM_SLOTS, 2 * job_chunks)
        shared = new_shared("l1", self._num_slots * CHUNK_BYTES)
        self._l1 = map_shared(shared, 0, self._num_slots * CHUNK_BYTES)
        settings = TierSettings(url=url, ca_file=ca_file, io_timeout_ms=20_000, namespace=mover)
        plan = MoverPlan(settings, "bench", {}, CHUNK_BYTES)
        counters = Counters()
        common = (lambda: b"root", counters, lambda what, error: print(what, error, file=sys.stderr))
        made = (
            ProcessMover(plan, shared, 0, len(self._l1), *common)
            if mover == "process"
            else build_mover(plan, self._l1, *common)
        )
        upkeep = build_upkeep(plan, *common)
        self._cache = L2Cache(made, Verdicts(20.0, counters), counters, upkeep=upkeep)
        self._number = 0
        self._num_open = 0
        self._due = 0.0
        self._cache.store(0, [KEY], [0])
        self._cache.drain()
        assert self._cache.take_finished()[0].moved

    def step(self) -> None:
        """What vLLM calls in a step: take what is finished, ask for more."""
        self._take()
        now = time.perf_counter()
        self._due = max(self._due, now - 0.1)
        size = self._job_chunks
        while self._due <= now and self._num_open + size <= self._num_slots:
            slots = [(self._number * size + place) % self._num_slots for place in range(size)]
            self._number += 1
            self._num_open += size
            self._due += size * CHUNK_BYTES / BYTES_PER_SECOND
            self._cache.load(self._number, [KEY] * size, slots)
            self._cache.note_held([KEY] * size)
        self._cache.flush()

    def rest(self) -> None:
        """Let what is under way end."""
        self._cache.drain()
        self._take()
        self._due = 0.0

    def _take(self) -> None:
        for job in self._cache.take_finished():
            self._num_open -= self._job_chunks
            self.num_loaded += len(job.moved)


class Neighbour(Quiet):
    """A process that has nothing to do with the engine and receives as much."""

    def __init__(self, url: str, *ca_file: str) -> None:
        command = [sys.executable, str(Path(__file__).with_name("neighbour.py")), url]
        command += [str(CHUNK_BYTES), str(NUM_SLOTS), str(BYTES_PER_SECOND), *ca_file]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._is_on = False

    def step(self) -> None:
        """Have it begin."""
        if not self._is_on:
            self._is_on = True
            self._tell("go")

    def rest(self) -> None:
        """Have it stop, and tell."""
        self._is_on = False
        self._tell("stop")
        assert self._process.stdout is not None
        self.num_loaded = int(self._process.stdout.readline())

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        print(word, file=self._process.stdin, flush=True)


@dataclass(frozen=True)
class Run:
    """Milliseconds per step: the median by the clock, and the means by the clock, on the CPU, waiting for it,
    and in calls of the tier; and what was loaded.
    """

    median: float
    clock: float
    cpu: float
    shortage: float
    calls: float
    gigabytes_per_second: float

    @property
    def clock_without_shortage(self) -> float:
        """What the clock would have shown on a CPU of the engine's own."""
        return self.clock - self.shortage

    @property
    def blocked(self) -> float:
        """Neither running nor ready to."""
        return self.clock - self.shortage - self.cpu


def shortage_seconds() -> float:
    """How long this thread was ready to run and did not:

    the second number of https://docs.kernel.org/scheduler/sched-stats.html (read 2026-12-01).
    """
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def run(engine: Any, traffic: Quiet) -> Run:
    """Time `STEPS` steps of a request that has been prefilled."""
    sampling = SamplingParams(temperature=0, max_tokens=STEPS + 2, ignore_eos=True)
    engine.add_request("decode", "Measure steps. " * 20, sampling)
    while not engine.step():
        pass
    times, calls = [], 0.0
    loaded = traffic.num_loaded
    shortage, cpu, begin = shortage_seconds(), time.thread_time(), time.perf_counter()
    for _ in range(STEPS):
        step = time.perf_counter()
        traffic.step()
        calls += time.perf_counter() - step
        assert engine.step(), "the engine has nothing to do"
        times.append(time.perf_counter() - step)
    clock = time.perf_counter() - begin
    cpu, shortage = time.thread_time() - cpu, shortage_seconds() - shortage
    traffic.rest()
    while engine.has_unfinished_requests():
        engine.step()
    per_step = 1e3 / STEPS
    moved = (traffic.num_loaded - loaded) * CHUNK_BYTES
    return Run(
        statistics.median(times) * 1e3,
        clock * per_step,
        cpu * per_step,
        shortage * per_step,
        calls * per_step,
        moved / clock / 1e9,
    )


def compared(runs: list[tuple[str, Run]], arm: str) -> dict[str, float]:
    """Medians of an arm, and of its ratios to the mean of the quiet runs before and after each."""
    found = [(runs[i - 1][1], each, runs[i + 1][1]) for i, (name, each) in enumerate(runs) if name == arm]

    def ratio(name: str) -> float:
        values = [
            2 * getattr(each, name) / (getattr(before, name) + getattr(after, name))
            for before, each, after in found
        ]
        return statistics.median(values)

    own = [each for _, each, _ in found]
    return {
        "median_ratio": ratio("median"),
        "clock_ratio": ratio("clock"),
        "clock_ratio_without_shortage": ratio("clock_without_shortage"),
        "cpu_ratio": ratio("cpu"),
        "blocked_ms": statistics.median(each.blocked for each in own),
        "calls_ms": statistics.median(each.calls for each in own),
        "quiet_ms": statistics.median(before.clock_without_shortage for before, _, _ in found),
        "gigabytes_per_second": statistics.median(each.gigabytes_per_second for each in own),
    }


def named(job_chunks: int) -> str:
    """What is added to an arm's name."""
    return "" if job_chunks == 1 else f", {job_chunks} chunks a job"


def main() -> None:
    """Alternate between quiet and each kind of traffic."""
    model, rounds, plain_url, tls_url, ca_file = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]
    sizes = [int(word) for word in sys.argv[6:]]
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cpus[1:]) or set(cpus))  # what is started now stays there
    arms = {
        **{
            f"{mover}{secured}{named(size)}": Tier(mover, size, *server)
            for size in sizes
            for secured, server in (("", (plain_url,)), (", TLS", (tls_url, ca_file)))
            for mover in ("threads", "process")
        },
        "neighbour": Neighbour(plain_url),
        "neighbour, TLS": Neighbour(tls_url, ca_file),
    }
    os.sched_setaffinity(0, {cpus[0]})
    engine = LLM(
        model=model,
        dtype="float32",
        max_model_len=8192,
        enforce_eager=True,
        kv_cache_memory_bytes=256 * 1024 * 1024,
        seed=0,
    ).llm_engine
    os.sched_setaffinity(0, {cpus[0]})  # vLLM may have had its own idea
    quiet = Quiet()
    run(engine, quiet)
    runs = [("quiet", run(engine, quiet))]
    for _ in range(rounds):
        for name, traffic in arms.items():
            runs.append((name, run(engine, traffic)))
            runs.append(("quiet", run(engine, quiet)))
    print(json.dumps({name: compared(runs, name) for name in arms}), flush=True)
    os._exit(0)  # nothing here is worth an orderly end


if __name__ == "__main__":
    main()
