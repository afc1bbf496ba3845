from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fakes_endpoint import FakeEndpoint, fake_endpoint

from hypertier.cli.compare import command

SMALL = ("--rounds", "3", "--requests", "4", "--prefixes", "2", "--prompt-tokens", "64", "--max-tokens", "3")


def run(state: FakeEndpoint, *arguments: str) -> Result:
    with fake_endpoint(state):
        return CliRunner().invoke(command, [state.url, *SMALL, *arguments])


def test_the_table_says_what_was_sent_and_what_differs() -> None:
    done = run(FakeEndpoint(), "--seed", "5")

    assert done.exit_code == 0, done.output
    assert re.search(r", m: 3 rounds of 4 requests each, \d+ s, seed 5$", done.stdout, re.M)
    assert re.search(r"^roundrobin +\d\.\d{3} s +\d\.\d{3} s +\d+ % +[\d.]+ +50 % +0$", done.stdout, re.M)
    assert re.search(
        r"^over roundrobin \(95 %\) +TTFT p50 .*\nprefixaware +[\d.]+ \([\d.]+ to [\d.]+\), ",
        done.stdout,
        re.M,
    )
    assert done.stderr.count("round ") == 6


def test_programs_get_the_same() -> None:
    found = json.loads(run(FakeEndpoint(), "--format", "json").stdout)

    assert (found["base"], found["rounds"], found["workload"]["requests"]) == ("roundrobin", 3, 4)
    base, other = found["strategies"]
    assert base["ratios"] == {}
    assert other["ratios"]["ttft_p50"].keys() == {"mean", "low", "high", "verdict"}


def test_what_no_run_of_before_has_cached_is_sent_by_default() -> None:
    state = FakeEndpoint()

    seeds = {json.loads(run(state, "--format", "json").stdout)["workload"]["seed"] for _ in range(3)}

    assert len(seeds) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strategies", "roundrobin"), "--strategies is 'roundrobin'; expected two or more of round"),
        (("--strategies", "session,nearest"), "--strategies is 'session,nearest'; expected two"),
        (("--strategies", "session,session"), "--strategies is 'session,session'; expected two"),
        (("--rounds", "2"), "--rounds is 2; expected 3 to 31"),
        (("--rounds", "32"), "--rounds is 32; expected 3 to 31"),
        (("--timeout", "0"), "--timeout is 0.0; expected 1 to 3600"),
        (("--requests", "0"), "--requests is 0; expected 1 or more"),
        (("--html", "/no/such/folder/a.html"), "--html is '/no/such/folder/a.html'; expected a file in a"),
        (("--fail-if", "ttft_p9_seconds > 1"), "--fail-if is 'ttft_p9_seconds > 1'; expected "),
        (("--prompt-tokens", "1"), "--prompt-tokens is 1; expected 64 to 200000"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_sent(arguments: tuple[str, ...], message: str) -> None:
    state = FakeEndpoint()

    done = run(state, *arguments)

    assert message in str(done.exception)
    assert state.received == []


def test_a_router_that_does_not_obey_is_told_with_what_helps() -> None:
    done = run(FakeEndpoint(by_header=False))

    assert "asked for roundrobin, the router chose by its own strategy; strategyByHeader: true in" in str(
        done.exception
    )


@pytest.mark.parametrize(
    ("limit", "exit_code", "line"),
    [
        (
            "requests_per_second < 0.001",
            0,
            r"^kept: prefixaware requests_per_second is \S+; fails if < 0.001$",
        ),
        (
            "requests_per_second > 0.001",
            1,
            r"^failed: prefixaware requests_per_second is \S+; fails if > 0.001$",
        ),
        (
            "ttft_p90_seconds > 0.001 * baseline",
            1,
            r"^failed: prefixaware ttft_p90_seconds is \S+ \* baseline \(.*\); fails if > 0.001 \* baseline$",
        ),
        ("ttft_p50_seconds > 1e6 * baseline", 0, r"^kept: prefixaware ttft_p50_seconds is "),
    ],
)
def test_a_limit_decides_the_exit_status_and_is_told(limit: str, exit_code: int, line: str) -> None:
    done = run(FakeEndpoint(), "--fail-if", limit, "--format", "json")

    assert done.exit_code == exit_code, done.output
    assert re.search(line, done.stderr, re.M)
    assert json.loads(done.stdout)["base"] == "roundrobin"


def test_the_page_has_what_was_printed(tmp_path: Path) -> None:
    file = tmp_path / "report.html"

    done = run(FakeEndpoint(), "--html", str(file), "--fail-if", "failed > 0", "--seed", "5")

    text = file.read_text(encoding="utf-8")
    assert done.stdout.splitlines()[0] in text
    assert "kept: prefixaware failed is 0; fails if &gt; 0" in text
