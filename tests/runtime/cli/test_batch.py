from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fakes_batch import Answered, FakeBatchEndpoint, echo, fake_batch_endpoint, lines_of

from hypertier.cli.batch import command

COMMAND = str(Path(sys.executable).with_name("hypertier"))


def run(state: FakeBatchEndpoint, folder: Path, *arguments: str, text: bytes = lines_of("b", "a")) -> Result:
    (folder / "in").write_bytes(text)
    with fake_batch_endpoint(state):
        files = ["--input", str(folder / "in"), "--output", str(folder / "out")]
        return CliRunner().invoke(command, [state.url, *files, *arguments])


def test_answers_stand_in_the_output_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    state = FakeBatchEndpoint()

    first, again = run(state, tmp_path), run(state, tmp_path, text=lines_of("b", "a", "c"))

    assert (first.exit_code, again.exit_code) == (0, 0), (first.output, again.output)
    assert sorted(state.prompts) == ["a", "b", "c"]
    names = [json.loads(line)["custom_id"] for line in (tmp_path / "out").read_text().splitlines()]
    assert sorted(names) == ["a", "b", "c"]
    assert first.stderr.startswith("2 of 2 requests, 0 failed, ")
    assert again.stderr.startswith("1 of 1 requests, 2 answered before, 0 failed, ")


def test_what_has_no_answer_is_told_and_sent_by_the_next_run(tmp_path: Path) -> None:
    state = FakeBatchEndpoint(
        lambda body, n: (400, b"no") if n == 1 and body["prompt"] == "a" else echo(body, n)
    )

    first = run(state, tmp_path)
    failed = (tmp_path / "out.errors").read_text()
    again = run(state, tmp_path)

    assert "requests without an answer: 1; " in str(first.exception)
    assert json.loads(failed)["custom_id"] == "a"
    assert (again.exit_code, (tmp_path / "out.errors").exists()) == (0, False)
    assert sorted(state.prompts) == ["a", "a", "b"]


def test_the_key_is_sent_and_told_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_KEY", "a-key-that-nobody-may-see")
    state = FakeBatchEndpoint(lambda body, attempt: (401, b"who are you?"))

    done = run(state, tmp_path, "--api-key-env", "BATCH_KEY")

    assert "a-key-that-nobody-may-see" not in done.output + str(done.exception)
    assert "a-key-that-nobody-may-see" not in (tmp_path / "out.errors").read_text()


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (("--concurrency", "0"), None, "--concurrency is 0; expected 1 to 1024"),
        (("--timeout", "0"), None, "--timeout is 0.0; expected 1 to 86400"),
        ((), b"{}\n", "in:1: custom_id is None"),
        ((), b"", "in:1: there is no request"),
    ],
)
def test_what_can_not_be_sent_is_told_before_anything_is(
    tmp_path: Path, arguments: tuple[str, ...], text: bytes | None, message: str
) -> None:
    state = FakeBatchEndpoint()

    done = run(state, tmp_path, *arguments, text=lines_of("a") if text is None else text)

    assert message in str(done.exception)
    assert (state.received, (tmp_path / "out").exists()) == ([], False)


@pytest.mark.cli
def test_ctrl_c_keeps_what_is_under_way_and_the_same_command_goes_on(tmp_path: Path) -> None:
    arrived, released = threading.Event(), threading.Event()

    def act(body: Mapping[str, Any], attempt: int) -> Answered:
        arrived.set()
        released.wait(60)
        return echo(body, attempt)

    state = FakeBatchEndpoint(act)
    (tmp_path / "in").write_bytes(lines_of(*"abcdef"))
    with fake_batch_endpoint(state):
        arguments = [COMMAND, "batch", state.url, "--input", "in", "--output", "out", "--concurrency", "2"]
        with subprocess.Popen(arguments, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert arrived.wait(60)
            os.kill(process.pid, signal.SIGINT)
            waiting = process.stderr.readline()
            released.set()
            said = process.stderr.read()
        again = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert waiting.startswith("waiting for what is under way")
    assert (process.returncode, "the same command goes on" in said) == (130, True)
    assert (again.returncode, sorted(state.prompts)) == (0, list("abcdef"))
