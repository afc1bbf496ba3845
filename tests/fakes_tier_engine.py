"""Real engines for tests: each a process with vLLM, L1 and L2, told by a line what to do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fakes_tier import RealValkey, eventually

from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.model import build_model
from hypertier.tier.preflight import Host, sweep_regions

SCRIPT = Path(__file__).parent / "runtime" / "tier" / "engine_script.py"
MIB = 2**20
PATIENT = {"lookup_deadline_ms": 20_000, "io_timeout_ms": 20_000, "stripe_bytes": 64 * 1024, "gate": "open"}


class Engine:
    """One engine, a process of its own. Chunks are 64 tokens, 256 KiB, in stripes of less than 64 KiB."""

    def __init__(self, path: Path, wish: dict[str, Any]) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._stream = self._socket.makefile("rw")
        self.pid = int(self._ask(wish))

    def generate(self, *prompts: str, num_tokens: int = 24, salt: str | None = None) -> list[list[int]]:
        """The tokens of the most likely continuation of each prompt."""
        outputs = self._ask({"generate": prompts, "num_tokens": num_tokens, "salt": salt})
        self.cached = [output["cached"] for output in outputs]
        return [output["tokens"] for output in outputs]

    def first_token(self, prompt: str) -> dict[str, float]:
        """Time the first token: `seconds`, of which `shortage` were waited for a CPU, and `cached` tokens."""
        return dict(self._ask({"first_token": prompt}))

    def forget(self, what: str = "all") -> None:
        """Empty vLLM's prefix cache, and, with "all", L1; waits for what is being moved to and from L2."""
        assert self._ask({"reset": what})

    def metric(self, name: str, **labels: str) -> float:
        """A metric's sum over the samples that have these labels."""
        samples = self._ask({"metric": name})
        return sum(value for its_labels, value in samples if labels.items() <= its_labels.items())

    def children(self, module: str) -> list[int]:
        """The process ids of what it runs as `python -m MODULE`."""
        lines = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in lines.split()}
        return [pid for pid, command in commands.items() if module.encode() in command.split(b"\0")]

    def kill(self) -> None:
        """End it as the kernel does when memory runs out."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._stream.close()
        self._socket.close()

    def _ask(self, command: dict[str, Any]) -> Any:
        print(json.dumps(command), file=self._stream, flush=True)
        line = self._stream.readline()
        assert line, "the engine ended; its log is printed when its host ends"
        return json.loads(line)


class EngineHost:
    """Starts engines."""

    def __init__(self, path: Path, model: Path) -> None:
        self._path = path
        self._model = model
        self._engines: list[Engine] = []

    def start(
        self,
        url: str | None,
        kv_cache_bytes: int = 64 * MIB,
        key: str = "",
        events_port: int = 0,
        among_connectors: bool = False,
        flags: dict[str, Any] | None = None,
        **tier: Any,
    ) -> Engine:
        """Start an engine with L2 at `url`; "" for L1 alone, None for nothing but vLLM's own cache.

        `among_connectors` puts our tiers behind vLLM's MultiConnector, as where KV moves between engines;
        `flags` are more of vLLM's own.
        """
        wish = {
            "model": str(self._model),
            "url": url,
            "l1_bytes": 64 * MIB,
            "kv_cache_bytes": kv_cache_bytes,
            "tier": PATIENT | tier,
            "key": key,
            "events_port": events_port,
            "among_connectors": among_connectors,
            "flags": flags or {},
        }
        engine = Engine(self._path, wish)
        self._engines.append(engine)
        return engine

    def close(self) -> None:
        """End all engines."""
        for engine in self._engines:
            engine.close()


@contextlib.contextmanager
def engine_host_in(directory: Path) -> Iterator[EngineHost]:
    """A host whose socket, log and model lie in `directory`; its log is printed when it ends."""
    python = find_engine_python(os.environ, SCRIPT)
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONHASHSEED")
    environ = {name: os.environ[name] for name in kept if name in os.environ}
    environ |= {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    path, log = directory / "socket", directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(python), str(SCRIPT), str(path)],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        listening = eventually(lambda: path.exists() or process.poll() is not None, 300)
        assert listening, log.read_text()[-4000:]
        assert process.poll() is None, log.read_text()[-4000:]
        host = EngineHost(path, build_model(directory / "model"))
        yield host
        host.close()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        sweep_regions(Host())
        print(log.read_text()[-20_000:])  # pytest shows it when a test failed


def stored_by(
    engine: Engine, valkey: RealValkey, prompt: str, salt: str | None = None
) -> dict[bytes, list[bytes]]:
    """Let an engine answer and tell what that added to L2: for each chunk the names of its stripes.

    Asks until an answer adds nothing more: on a slow machine a chunk may miss its time limit.
    """
    before, had = set(valkey.keys()), -1
    while had < (has := len(valkey.keys())):
        had = has
        engine.generate(prompt, salt=salt)
        engine.forget()
    chunks: dict[bytes, list[bytes]] = {}
    for name in sorted(set(valkey.keys()) - before, key=lambda name: int(name.rpartition(b":")[2])):
        chunks.setdefault(name.rpartition(b":")[0], []).append(name)
    return chunks
