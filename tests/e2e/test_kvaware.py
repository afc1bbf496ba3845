"""Real vLLM with kvaware: what the engine publishes is what its own `/tokenize` makes of the same chat."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from hypertier.lab.client import ask
from hypertier.lab.engine_env import PYTHON_VARIABLE, find_engine_python
from hypertier.lab.lab import Lab
from hypertier.lab.metrics import samples
from hypertier.lab.prepare import prepare_lab, render_file

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "examples" / "reference"
PROMPT = "A tier keeps blocks; a lookup is a hit or a miss. " * 30


def counts(lab: Lab) -> dict[tuple[str, str], float]:
    """The router's series of kvaware, by name and cause."""
    with urllib.request.urlopen(f"{lab.plan.router_metrics_url}/metrics", timeout=60) as response:
        found: list[tuple[str, Any, float]] = list(samples(response.read().decode()))
    return {
        (name.removeprefix("hypertier_router_"), labels.get("cause", "")): value
        for name, labels, value in found
        if "kvaware" in name or name.endswith("matched_prompt_bytes_total")
    }


def test_a_chat_is_found_by_the_events_of_the_engine_that_computed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(find_engine_python(os.environ, ROOT)))
    monkeypatch.chdir(tmp_path)
    for file in REFERENCE.glob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        (tmp_path / file.name).write_text(text.replace("prefixaware", "kvaware"), encoding="utf-8")
    name, objects = render_file(tmp_path / "deployment.yaml")

    with prepare_lab(objects, name, "vllm", 1, print) as lab:
        url, model = lab.plan.router_url, lab.plan.model_name
        while not counts(lab).get(("kvaware_in_step", "")):
            pass
        ask(url, model, PROMPT, max_tokens=1)
        while sum(v for (n, _), v in counts(lab).items() if n == "kvaware_tokenizations_total") < 1:
            pass
        ask(url, model, "Another prompt, so that the size of blocks is known. " * 30, max_tokens=1)
        fallbacks = 0.0
        for _ in range(20):
            before = counts(lab)
            ask(url, model, PROMPT, max_tokens=1)
            after = counts(lab)
            fallbacks = sum(
                after[key] - before.get(key, 0.0) for key in after if key[0] == "kvaware_fallbacks_total"
            )
            if not fallbacks:
                break

    assert fallbacks == 0
    assert after[("kvaware_tokenizations_total", "good")] >= 1
    assert after[("matched_prompt_bytes_total", "")] > before[("matched_prompt_bytes_total", "")]
    assert not any(value for (name, _), value in after.items() if name == "kvaware_dropped_blocks_total")
