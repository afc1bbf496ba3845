"""Real vLLM with kvaware: what the engine publishes is what its own `/tokenize` makes of the same chat."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from fakes_access import ACME, ZETA, AccessFolder, router_process

from hypertier.lab.client import ask
from hypertier.lab.engine_env import PYTHON_VARIABLE, find_engine_python
from hypertier.lab.lab import Lab
from hypertier.lab.metrics import samples
from hypertier.lab.prepare import prepare_lab, render_file

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "examples" / "reference"
PROMPT = "A tier keeps blocks; a lookup is a hit or a miss. " * 30


def counts(url: str) -> dict[tuple[str, str], float]:
    """A router's series of kvaware, by name and cause; `url` is that of its metrics."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:
        found: list[tuple[str, Any, float]] = list(samples(response.read().decode()))
    return {
        (name.removeprefix("hypertier_router_"), labels.get("cause", "")): value
        for name, labels, value in found
        if "kvaware" in name or name.endswith("matched_prompt_bytes_total")
    }


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One real engine that publishes its events, and a router that hears them."""
    folder = tmp_path_factory.mktemp("kvaware")
    for file in REFERENCE.glob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        (folder / file.name).write_text(text.replace("prefixaware", "kvaware"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PYTHON_VARIABLE, str(find_engine_python(os.environ, ROOT)))
        patch.chdir(folder)
        name, objects = render_file(folder / "deployment.yaml")
        with prepare_lab(objects, name, "vllm", 1, print) as made:
            yield made


def ask_until_heard(
    metrics: str, asking: Callable[[str], object], prompt: str
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Ask until a choice needs no fallback, 20 times at most; the counts before and after the last time."""
    while not counts(metrics).get(("kvaware_verified", "")):
        pass
    asking(prompt)
    while sum(v for (n, _), v in counts(metrics).items() if n == "kvaware_tokenizations_total") < 1:
        pass
    asking("Another prompt, so that the size of blocks is known. " * 30)
    for _ in range(20):
        before = counts(metrics)
        asking(prompt)
        after = counts(metrics)
        if not fallbacks(before, after):
            break
    return before, after


def fallbacks(before: dict[tuple[str, str], float], after: dict[tuple[str, str], float]) -> float:
    return sum(after[key] - before.get(key, 0.0) for key in after if key[0] == "kvaware_fallbacks_total")


def test_a_chat_is_found_by_the_events_of_the_engine_that_computed_it(lab: Lab) -> None:
    url, model = lab.plan.router_url, lab.plan.model_name

    before, after = ask_until_heard(
        lab.plan.router_metrics_url, lambda prompt: ask(url, model, prompt, max_tokens=1), PROMPT
    )

    assert fallbacks(before, after) == 0
    assert after[("kvaware_tokenizations_total", "good")] >= 1
    assert after[("matched_prompt_bytes_total", "")] > before[("matched_prompt_bytes_total", "")]
    assert not any(value for (name, _), value in after.items() if name == "kvaware_dropped_blocks_total")


def test_a_tenants_chat_is_found_by_its_own_blocks_and_not_by_anothers(lab: Lab, tmp_path: Path) -> None:
    prompt = "Blocks of one tenant are no other tenant's blocks. " * 30
    replica = ["--replica", lab.plan.replica_urls[0], "--kv-events", f"127.0.0.1:{events_port(lab)}"]

    def matched(of: dict[tuple[str, str], float]) -> float:
        return of[("matched_prompt_bytes_total", "")]

    with router_process(AccessFolder(tmp_path), "--strategy", "kvaware", *replica) as (url, metrics):

        def asking(key: str) -> Callable[[str], object]:
            client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, timeout=300)
            return lambda text: client.chat.completions.create(
                model=lab.plan.model_name, max_tokens=1, messages=[{"role": "user", "content": text}]
            )

        before, after = ask_until_heard(metrics, asking(ACME), prompt)
        asking(ZETA)(prompt)
        others = counts(metrics)

    assert fallbacks(before, after) == 0
    assert matched(after) > matched(before)
    assert matched(others) == matched(after)
    assert fallbacks(after, others) == 1


def events_port(lab: Lab) -> int:
    """Where the engine publishes, as the lab told its own router."""
    argv = lab.plan.router.argv
    return int(argv[argv.index("--kv-events") + 1].rpartition(":")[2])
