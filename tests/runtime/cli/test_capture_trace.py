"""`hypertier capture trace`: from what routers captured to a trace that `hypertier simulate` replays."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fakes_engine import FakeEngine, RawClient, Received, post, run_loop
from fakes_router import routed

from hypertier.cli import capture_trace
from hypertier.cli.commands import cli
from hypertier.errors import ConfigError, HypertierError, ManifestError
from hypertier.router.capture.spool import Spool
from hypertier.simulation.captured import reading
from hypertier.simulation.captured.reading import tenant_of
from hypertier.simulation.trace import read_trace

DOCUMENT = "A document that many ask about. " * 200
LINE = json.dumps({"timestamp": 5, "model": "m", "prompt": DOCUMENT})


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["capture", "trace", *arguments], input=stdin)


async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
    """As vLLM does: in one piece, or as a stream that ends with its usage."""
    body = json.loads(request.body)
    usage = {"prompt_tokens": len(request.body) // 4, "completion_tokens": 5}
    if body.get("stream"):
        text = b"data: %b\n\ndata: [DONE]\n\n" % json.dumps({"choices": [], "usage": usage}).encode()
        kind = b"text/event-stream"
    else:
        text, kind = json.dumps({"choices": [], "usage": usage}).encode(), b"application/json"
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(text), text)
    )


def captured_by_a_router(spool: Path, bodies: list[Any]) -> None:
    async def act() -> None:
        engine = FakeEngine(answer=answer)
        async with routed(engine, capture_spool=str(spool)) as router:
            client = await RawClient.connect(router.port)
            for body in bodies:
                text = json.dumps(body).encode()
                client.send(post(b"/v1/chat/completions", text, b"content-type: application/json"))
                assert (await client.answer()).status == 200

    run_loop(act())


def test_what_a_router_captured_is_replayed(tmp_path: Path) -> None:
    system = {"role": "system", "content": DOCUMENT}
    bodies: list[dict[str, Any]] = [
        {"model": "m", "messages": [system, {"role": "user", "content": f"question {n}"}], "stream": n == 1}
        for n in range(3)
    ]
    captured_by_a_router(tmp_path / "spool", bodies)
    target = tmp_path / "trace.jsonl"

    made = run(str(tmp_path / "spool"), "-o", str(target))

    assert made.exit_code == 0, made.output
    assert "estimated" not in made.output
    assert f"hypertier simulate --trace {target}" in made.output.replace("\n", "")
    trace = read_trace(target)
    assert [request.input_tokens for request in trace] == [
        len(json.dumps(body).encode()) // 4 for body in bodies
    ]
    assert [request.output_tokens for request in trace] == [5, 5, 5]
    assert len({request.blocks[:2] for request in trace}) == 1
    assert len({request.session for request in trace}) == 3
    replayed = CliRunner().invoke(cli, ["simulate", "--trace", str(target), "--strategies", "roundrobin"])
    assert replayed.exit_code == 0, replayed.output


def test_captures_that_are_redacted_are_refused_as_they_show_no_beginnings(tmp_path: Path) -> None:
    Spool(tmp_path, 10**6).write(
        "", 0.0, [json.dumps({"timestamp": 1, "prompt": "[3 characters]"}).encode() + b"\n"]
    )

    made = run(str(tmp_path), "-o", "-")

    assert isinstance(made.exception, HypertierError)
    assert "1 are redacted: lengths alone don't show which prompts begin alike" in str(made.exception)


def test_redacted_lines_among_others_are_left_out_with_a_warning() -> None:
    made = run("-", "-o", "-", stdin=f'{LINE}\n{{"timestamp": 1, "prompt": "[3 characters]"}}\n')

    assert made.exit_code == 0
    assert "warning: left out 1: redacted" in made.stderr


def test_lines_that_cannot_be_read_are_named_and_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(f"{LINE}\n\n" + "secret\n" * 15 + LINE, encoding="utf-8")

    made = run(str(file), "-o", "-")

    assert made.exit_code == 0
    assert len(made.stdout.splitlines()) == 2
    assert f"{file}:3: no JSON; expected a captured request" in made.stderr
    assert f"{file}:13:" not in made.stderr
    assert "and 5 more lines that can't be read" in made.stderr
    assert "left out 15 lines" in made.stderr
    assert "secret" not in made.output


def test_a_line_without_an_end_is_named_and_what_follows_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 10_000)

    made = run("-", "-o", "-", stdin=f"{'x' * 35_000}\n{LINE}\n")

    assert "-:1: too long" in made.stderr
    assert len(made.stdout.splitlines()) == 1


def test_a_batch_file_has_no_times_so_its_rate_is_given() -> None:
    batch = "".join(
        f'{{"custom_id": "{n}", "url": "/v1/completions", "body": {{"prompt": "p"}}}}\n' for n in "abc"
    )

    without, made = run("-", "-o", "-", stdin=batch), run("-", "-o", "-", "--rate", "2", stdin=batch)

    assert "no timestamp; --rate N sends requests" in without.stderr
    assert [json.loads(line)["timestamp"] for line in made.stdout.splitlines()] == [0, 500, 1000]


def test_a_tenant_is_the_folder_that_a_router_names_after_it(tmp_path: Path) -> None:
    Spool(tmp_path, 10**6).write("a/b=c", 0.0, [b"x"])

    (file,) = tmp_path.rglob("*.jsonl")

    assert tenant_of(file) == "a/b=c"
    assert tenant_of(Path("captures/AllTraffic/x.jsonl")) == ""


@pytest.mark.parametrize(
    ("options", "num_distinct"), [([], 2), (["--shared-cache"], 1)], ids=["apart", "shared"]
)
def test_tenants_share_blocks_where_they_share_the_cache(
    options: list[str], num_distinct: int, tmp_path: Path
) -> None:
    for tenant in ("acme", "umbrella"):
        Spool(tmp_path, 10**6).write(tenant, 0.0, [LINE.encode() + b"\n"])

    made = run(str(tmp_path), "-o", "-", *options)

    assert len({tuple(json.loads(line)["hash_ids"]) for line in made.stdout.splitlines()}) == num_distinct
    assert "2 tenants" in made.stderr
    assert "acme" not in made.stdout


def test_one_model_alone_is_taken_where_it_is_named() -> None:
    lines = f'{LINE}\n{{"timestamp": 6, "model": "n", "prompt": "p"}}\n'

    made, typo = (
        run("-", "-o", "-", "--model", "n", stdin=lines),
        run("-", "-o", "-", "--model", "x", stdin=lines),
    )

    assert len(made.stdout.splitlines()) == 1
    assert isinstance(typo.exception, ConfigError)
    assert str(typo.exception) == "--model is 'x'; expected one of m, n"


def test_how_far_it_is_is_told_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_trace, "TELL_SECONDS", 0.0)

    made = run("-", "-o", "-", stdin=f"{LINE}\n")

    assert "-: 1 lines read, 0 MB" in made.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["{folder}/none.jsonl", "-o", "-"], "none.jsonl: cannot be read: No such file", id="no file"
        ),
        pytest.param(["{folder}", "-o", "-"], "holds no file *.jsonl", id="an empty folder"),
        pytest.param(["-", "-o", "-"], "no request to make a trace of: no line", id="nothing"),
        pytest.param(
            ["-", "-o", "-", "--rate", "0"], "--rate is 0.0; expected a number above 0", id="no rate"
        ),
        pytest.param(["-", "-o", "{folder}/a/b"], "a file in a folder that exists", id="no folder"),
        pytest.param(["-", "-o", "{folder}"], "a file in a folder that exists", id="a folder"),
        pytest.param(["{file}", "-o", "{file}"], "another file than those that are read", id="itself"),
    ],
)
def test_what_cannot_work_is_said(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    file = tmp_path / "x"
    file.write_text(LINE)
    filled = [each.format(folder=tmp_path / "empty", file=file) for each in arguments]

    made = run(*filled)

    assert isinstance(made.exception, HypertierError)
    assert said in str(made.exception)
    assert file.read_text() == LINE


def test_a_trace_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(capture_trace.os, "replace", full)

    made = run("-", "-o", str(tmp_path / "t.jsonl"), stdin=f"{LINE}\n")

    assert isinstance(made.exception, ManifestError)
    assert "cannot be written: No space left on device" in str(made.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--to", "s3://b"], "Missing option '--spool'", id="no spool"),
        pytest.param(["--spool", "."], "Missing option '--to'", id="nowhere to"),
        pytest.param(
            ["--spool", ".", "trace", "-", "-o", "-"], "--spool and --to carry files to S3", id="both"
        ),
        pytest.param(["trcae"], "Did you mean 'trace'?", id="a typo"),
    ],
)
def test_carrying_still_needs_its_options(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["capture", *arguments])

    assert result.exit_code == 2
    assert said in result.output
