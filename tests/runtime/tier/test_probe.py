"""An engine that asks who calls is asked for its health by its own certificate."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest
from fakes_engine import FakeEngine, run_loop
from fakes_tls import Authority

NAME = "llama-engine.inference.svc"


@pytest.mark.parametrize(
    ("healthy", "name", "exit_code"),
    [
        pytest.param(True, NAME, 0, id="well"),
        pytest.param(False, NAME, 1, id="unwell"),
        pytest.param(True, "another.inference.svc", 1, id="another-name"),
    ],
)
def test_it_ends_with_0_for_an_engine_that_is_well(
    tmp_path: Path, healthy: bool, name: str, exit_code: int
) -> None:
    authority = Authority(tmp_path)
    folder = Path(authority.issue("engine", host=NAME)[0]).parent
    shutil.copy(authority.ca, folder / "ca.crt")

    async def act() -> int | None:
        engine = await FakeEngine(healthy=healthy, tls=authority.server(host=NAME, asks_client=True)).start()
        url = f"https://127.0.0.1:{engine.port}/health"
        words = ["-m", "hypertier.tier.probe", url, "--folder", str(folder), "--server-name", name]
        process = await asyncio.create_subprocess_exec(sys.executable, *words)
        return await process.wait()

    assert run_loop(act()) == exit_code
