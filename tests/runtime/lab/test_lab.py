from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes_rendered import ENGINE_ARGS, KV_TRANSFER_CONFIG, ROUTER_ARGS, rendered

from hypertier.errors import ConfigError, LabError
from hypertier.lab.bench import run_bench
from hypertier.lab.client import post
from hypertier.lab.lab import Lab
from hypertier.lab.measuring import Measurement, measure, wait_until_stored
from hypertier.lab.metrics import read_counts
from hypertier.lab.prepare import prepare_lab
from hypertier.lab.processes import is_alive
from hypertier.lab.running import lab_directory, stop_lab
from hypertier.lab.simulated.settings import KV_BYTES_PER_TOKEN
from hypertier.lab.state import load_state
from hypertier.router.routes.routes import parse
from hypertier.workload import Workload

pytestmark = pytest.mark.cli

PROMPT = "A tier keeps blocks. " * 40


def silent(text: str) -> None:
    """Say nothing."""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a lab says; its files lie in a directory of the test's own."""
    monkeypatch.chdir(tmp_path)
    return []


@pytest.fixture
def lab(told: list[str]) -> Iterator[Lab]:
    """A lab of two simulated engines, up."""
    with prepare_lab(rendered(), "test", "simulated", 2, told.append) as lab:
        yield lab


def ask(lab: Lab, prompt: str = PROMPT) -> Measurement:
    return measure(lab.plan.router_url, lab.plan.replica_urls, lab.plan.model_name, prompt, max_tokens=8)


def test_restarted_engines_find_in_l2_what_was_computed_before(lab: Lab) -> None:
    before = [read_counts(url) for url in lab.plan.replica_urls]
    first, second = ask(lab), ask(lab)
    wait_until_stored(lab.plan.replica_urls, before, second.cached_tokens * KV_BYTES_PER_TOKEN)

    lab.stop(lab.engine_names)
    lab.start(lab.engine_names)
    third = ask(lab)

    assert [each.hit_source for each in (first, second, third)] == ["none", "GPU", "L2"]
    assert first.answer.text == second.answer.text == third.answer.text
    assert second.cached_tokens == third.cached_tokens > 0


def test_without_valkey_requests_are_answered_all_the_same(lab: Lab) -> None:
    first = ask(lab)
    lab.kill("valkey")
    for url in lab.plan.replica_urls:
        post(f"{url}/reset_prefix_cache?reset_external=true")

    second, other = ask(lab), ask(lab, "Another prompt. " * 40)

    assert lab.missing == ("valkey",)
    assert (second.hit_source, second.answer.text) == ("none", first.answer.text)
    assert other.answer.text


def test_with_one_engine_gone_the_other_answers(lab: Lab) -> None:
    lab.kill("engine-0")

    answers = [ask(lab, f"{number} {PROMPT}").served_by for number in range(3)]

    assert answers == ["engine-1"] * 3


def test_a_load_is_answered_and_counted_by_tier(lab: Lab, told: list[str]) -> None:
    state = load_state(lab.directory)
    assert state is not None

    result = run_bench(state, Workload(requests=12, prefixes=2, prompt_tokens=400), told.append)

    assert (len(result.answers), result.failures) == (12, ())
    assert sum(result.cached_tokens.values()) == sum(each.cached_tokens for each in result.answers) > 0
    assert sum(result.served.values()) == 12
    assert told[-1] == "12 of 12 requests"


def test_a_load_without_engines_fails_and_says_why(lab: Lab) -> None:
    state = load_state(lab.directory)
    assert state is not None
    lab.stop(lab.engine_names)

    result = run_bench(state, Workload(requests=2), silent)

    assert len(result.failures) == 2
    assert "answered 50" in result.failures[0]


def test_a_lab_tells_what_differs_and_what_is_simulated(lab: Lab, told: list[str]) -> None:
    text = "\n".join(told)

    assert re.search(r"--tensor-parallel-size +8 +1 +there is no GPU", text)
    assert "SIMULATED ENGINE: no model computes here" in text
    assert (lab.directory / "differences.txt").read_text().startswith("setting")


def test_down_leaves_nothing_behind(lab: Lab) -> None:
    records = lab.records

    lab.down()

    assert len(records) == 4
    assert [record.name for record in records if is_alive(record)] == []
    assert load_state(lab.directory) is None


def test_another_command_ends_a_lab_by_its_state(lab: Lab) -> None:
    assert stop_lab(lab_directory("test")) == 4
    assert stop_lab(lab_directory("test")) == 0
    assert lab.missing == ("valkey", "engine-0", "engine-1", "router")


def test_what_l2_holds_can_be_looked_at_as_long_as_the_lab_is_up(lab: Lab) -> None:
    assert lab.l2_file is not None
    assert lab.l2_file.stat().st_mode & 0o077 == 0
    look = f". {lab.l2_file}; {Path(sys.executable).with_name('hypertier')} cache ls"

    done = subprocess.run(["sh", "-c", look], capture_output=True, text=True, check=False)
    lab.down()

    assert (done.stdout, done.stderr) == ("nothing in L2\n", "")
    assert not lab.l2_file.exists()


def test_a_second_lab_is_refused_and_the_first_stays_up(lab: Lab) -> None:
    differences = (lab.directory / "differences.txt").read_text()

    with pytest.raises(LabError, match="this lab is up already, at http"):
        prepare_lab(rendered(), "test", "simulated", 1, silent)

    assert lab.missing == ()
    assert (lab.directory / "differences.txt").read_text() == differences
    assert ask(lab).answer.text


def test_a_lab_that_does_not_come_up_whole_is_ended(told: list[str]) -> None:
    broken = json.loads(json.dumps(KV_TRANSFER_CONFIG))
    broken["kv_connector_extra_config"]["secondary_tiers"][0]["shiny"] = 1
    objects = rendered([*ENGINE_ARGS[:-1], json.dumps(broken)])
    lab = prepare_lab(objects, "test", "simulated", 1, told.append)

    with pytest.raises(
        LabError, match=r"engine-0 ended while it started(.|\n)*secondary_tiers.shiny is 1; expected"
    ):
        lab.up()

    assert lab.records == ()


def test_logs_begin_anew_with_each_lab(told: list[str]) -> None:
    lab = prepare_lab(rendered(), "test", "simulated", 1, told.append)
    (lab.directory / "engine-0.log").write_text("of an earlier lab\n")

    with lab:
        log = (lab.directory / "engine-0.log").read_text()

    assert "SIMULATED engine on port" in log
    assert "of an earlier lab" not in log


def test_the_routers_routes_are_a_file_of_the_lab_that_stays_as_it_was_changed(told: list[str]) -> None:
    objects = rendered(router_args=[*ROUTER_ARGS, "--routes", "/etc/hypertier/routes/routes.yaml"])
    file = lab_directory("test") / "routes.yaml"

    lab = prepare_lab(objects, "test", "simulated", 1, told.append)
    made = parse(file.read_bytes(), has_kvaware=False)
    file.write_text("strategy: session")
    prepare_lab(objects, "test", "simulated", 1, silent)

    assert f"--routes {file.absolute()}" in " ".join(lab.plan.router.argv)
    assert made.by_header == {"roundrobin", "prefixaware", "session"}
    assert file.read_text() == "strategy: session"


def test_a_directory_that_cannot_be_made_is_told(told: list[str]) -> None:
    Path(".hypertier").write_text("a file")

    with pytest.raises(LabError, match=r"\.hypertier/lab/test cannot be made here, in .*: Not a directory"):
        prepare_lab(rendered(), "test", "simulated", 1, told.append)


@pytest.mark.parametrize(
    ("engine", "replicas", "message"),
    [
        pytest.param("sglang", 2, "--engine is 'sglang'; expected one of vllm, simulated", id="engine"),
        pytest.param("simulated", 0, "--replicas is 0; expected 1 to 8", id="none"),
        pytest.param("simulated", 9, "--replicas is 9; expected 1 to 8", id="many"),
    ],
)
def test_what_cannot_work_is_named(told: list[str], engine: str, replicas: int, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        prepare_lab(rendered(), "test", engine, replicas, told.append)
