"""Real engines for the tests that need them: vLLM is imported once, each engine is a fork of that process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes_tier import eventually
from fakes_tier_engine import Engine, EngineHost

from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.model import build_model
from hypertier.tier.preflight import Host, sweep_regions

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def engine_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHost]:
    directory = tmp_path_factory.mktemp("engines")
    python = find_engine_python(os.environ, HERE)
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
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
            [str(python), str(HERE / "engine_script.py"), str(path)],
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


@pytest.fixture(scope="session")
def plain_engine(engine_host: EngineHost) -> Engine:
    """An engine without our cache: what it says is right."""
    return engine_host.start(None)
