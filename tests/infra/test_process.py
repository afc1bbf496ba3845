"""`infra.process`: what a synth sets for its own process and for Node.js."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from infra.process import node_options

TIERING = Path(__file__).parents[2] / "infra" / "tiering.cjs"


def node(code: str, options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", "-e", code],
        env=os.environ | {"NODE_OPTIONS": options},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_what_a_user_gave_to_node_comes_last_and_so_wins() -> None:
    options = node_options("--v8-pool-size=3 --max-old-space-size=300")

    assert options.startswith("--v8-pool-size=1 ")
    assert options.endswith(" --v8-pool-size=3 --max-old-space-size=300")


@pytest.mark.parametrize("folder", ["plain", "with space", 'with "quote', "with\\backslash"])
def test_node_finds_what_it_is_to_load_in_any_folder(tmp_path: Path, folder: str) -> None:
    preload = tmp_path / folder / "tiering.cjs"
    preload.parent.mkdir()
    preload.write_text("console.log('loaded')", encoding="utf-8")

    assert node("", node_options("", preload)).stdout == "loaded\n"


def test_node_takes_the_settings_without_a_word() -> None:
    ran = node("", node_options(""))

    assert (ran.stdout, ran.stderr) == ("", "")


def test_the_budget_is_a_flag_that_this_node_knows() -> None:
    known = subprocess.check_output(["node", "--v8-options"], text=True, timeout=60)

    assert "--wasm-tiering-budget=" in TIERING.read_text(encoding="utf-8")
    assert "--wasm-tiering-budget " in known
