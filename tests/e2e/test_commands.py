"""What the README tells one to type, typed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from hypertier.lab.running import lab_directory, stop_lab

pytestmark = [pytest.mark.cli, pytest.mark.timeout(600)]

ROOT = Path(__file__).parent.parent.parent
COMMAND = str(Path(sys.executable).with_name("hypertier"))
ENVIRONMENT = {**os.environ, "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20"}


WHAT_THE_DEMO_NEEDS = (".venv", "LICENSE", "app.py", "cdk.json", "node_modules")
STARTS = re.compile(r"^(?P<name>\S+) starts \(process (?P<pid>\d+),", re.M)


def until(lines: Iterable[str], beginning: str) -> Iterator[str]:
    """Yield lines up to the first that begins so."""
    for line in lines:
        yield line
        if line.startswith(beginning):
            return


def readme_commands() -> list[list[str]]:
    """The arguments of every `hypertier` command in the README, in order; the lab's engines are simulated."""
    lines = re.findall(r"^\$ \.venv/bin/hypertier (.*)$", (ROOT / "README.md").read_text("utf-8"), re.M)
    commands = [shlex.split(line, comments=True) for line in lines]
    return [[*each, "--engine", "simulated"] if each[:2] == ["lab", "up"] else each for each in commands]


def run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    files = [
        path
        for each in arguments
        for path in (sorted(map(str, directory.glob(each))) if "*" in each else [each])
    ]
    return subprocess.run(
        [COMMAND, *files], cwd=directory, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the examples. Whatever a failed test leaves running there is ended."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_readme_work(checkout: Path) -> None:
    commands = readme_commands()

    try:
        results = [run(arguments, checkout) for arguments in commands]
    finally:
        num_left = stop_lab(lab_directory("reference"))

    assert {each[0] for each in commands} >= {"lint", "render", "plan", "lab"}
    assert [(r.args[1:], r.stdout, r.stderr) for r in results if r.returncode != 0] == []
    assert num_left == 0
    assert list((checkout / "rendered").rglob("*.yaml"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["up", "no.yaml"], "no.yaml: cannot be read", id="no file"),
        pytest.param(["up", "FILE", "--engine", "x"], "--engine is 'x'; expected one of vllm", id="engine"),
        pytest.param(["up", "FILE", "--replicas", "0"], "--replicas is 0; expected 1 to 8", id="replicas"),
        pytest.param(["chat", "FILE", "hello"], "is not up; start it with: hypertier lab up", id="not up"),
        pytest.param(
            ["chat", "FILE", "x", "--max-tokens", "0"], "--max-tokens is 0; expected 1", id="tokens"
        ),
    ],
)
def test_a_value_that_cannot_work_is_named_and_ends_with_1(
    checkout: Path, arguments: list[str], message: str
) -> None:
    file = "examples/reference/deployment.yaml"

    result = run(["lab", *(file if each == "FILE" else each for each in arguments)], checkout)

    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_lab_up_early_leaves_nothing_running(checkout: Path, number: signal.Signals) -> None:
    engine = checkout / "engine-that-is-never-ready"
    engine.write_text("#!/bin/sh\nexec sleep 600\n")
    engine.chmod(0o755)
    up = subprocess.Popen(
        [COMMAND, "lab", "up", "examples/reference/deployment.yaml"],
        cwd=checkout,
        env={**ENVIRONMENT, "HYPERTIER_ENGINE_PYTHON": str(engine)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert up.stdout is not None
    started = list(STARTS.finditer("".join(until(up.stdout, "engine-1 starts"))))

    up.send_signal(number)
    _, error = up.communicate(timeout=120)

    assert up.returncode == 130
    assert "Interrupted; nothing is left running." in error
    assert [match["name"] for match in started] == ["valkey", "engine-0", "engine-1"]
    assert [match[0] for match in started if Path(f"/proc/{match['pid']}").exists()] == []


def test_the_demo_runs_to_its_table(checkout: Path) -> None:
    for name in WHAT_THE_DEMO_NEEDS:
        (checkout / name).symlink_to(ROOT / name)
    argv = [sys.executable, "-m", "hypertier.lab.demo", "--engine", "simulated"]
    result = subprocess.run(argv, cwd=checkout, env=ENVIRONMENT, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout + result.stderr
    rows = re.findall(r"^ +(\d\w?) .* (none|GPU|L1|L2) +(\d+) of \d+ +[\d.]+ s$", result.stdout, re.M)
    assert [row[:2] for row in rows] == [("1", "none"), ("2", "GPU"), ("2b", "L1"), ("3", "L2")]
    assert "SIMULATED ENGINE" in result.stdout
    heading = re.search(r"^ +(request .*TTFT)$", result.stdout, re.M)
    assert heading is not None
    assert heading[1] in (ROOT / "README.md").read_text("utf-8")
    for path in re.findall(r"^ +(?:review page|templates|manifests) +(\S+)$", result.stdout, re.M):
        assert (checkout / path).exists()


def test_the_demo_says_what_failed_and_where_the_log_is(checkout: Path) -> None:
    argv = [sys.executable, "-m", "hypertier.lab.demo"]

    result = subprocess.run(argv, cwd=checkout, env=ENVIRONMENT, capture_output=True, text=True, check=False)

    assert result.returncode == 1
    assert "The demo failed: cdk synth: node_modules/.bin/cdk did not start" in result.stderr
