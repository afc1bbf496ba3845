from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from hypertier.cli.simulate import command
from hypertier.errors import ConfigError, ManifestError
from hypertier.router.settings import STRATEGIES

AGENT = ["--workload", "agent", "--requests", "60", "--load", "1", "--replicas", "2"]


def test_json_compares_the_strategies_on_the_same_traffic() -> None:
    result = CliRunner().invoke(
        command, [*AGENT, "--strategies", "prefixaware,llm-d", "--format", "json", "--usd-per-hour", "60"]
    )

    found = json.loads(result.output)["strategies"]
    assert list(found) == ["prefixaware", "llm-d"]
    assert all(0 < one["hit_ratio"] < 1 and one["usd_per_million_tokens"] > 0 for one in found.values())


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    row = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}'
    later = '{"timestamp": 9000, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}'
    file = tmp_path / "trace.jsonl"
    file.write_text(f"{row}\n{later}\n", encoding="utf-8")

    result = CliRunner().invoke(
        command, ["--trace", str(file), "--strategies", "prefixaware", "--format", "json"]
    )

    assert json.loads(result.output)["strategies"]["prefixaware"]["hit_ratio"] == pytest.approx(512 / 1200)


def test_l2_helps_where_sessions_are_torn_apart() -> None:
    options = [*AGENT, "--strategies", "roundrobin", "--format", "json"]

    without = json.loads(CliRunner().invoke(command, options).output)["strategies"]["roundrobin"]
    shared = json.loads(CliRunner().invoke(command, [*options, "--l2-tokens", "10000000"]).output)[
        "strategies"
    ]["roundrobin"]

    assert without["hit_ratio_l2"] == 0
    assert shared["hit_ratio_l2"] > 0
    assert shared["hit_ratio"] > without["hit_ratio"]


def test_all_strategies_of_the_router_are_compared_unless_some_are_named() -> None:
    result = CliRunner().invoke(command, [*AGENT, "--format", "json"])

    assert set(json.loads(result.output)["strategies"]) == set(STRATEGIES)


@pytest.mark.parametrize("form", ["text", "html"])
def test_every_strategy_is_shown(form: str) -> None:
    result = CliRunner().invoke(command, [*AGENT, "--strategies", "prefixaware,ray", "--format", form])

    assert result.exit_code == 0
    assert "prefixaware" in result.output
    assert "ray" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            ["--workload", "agent", "--strategies", "x"], "--strategies is 'x'; expected some of", id="x"
        ),
        pytest.param(["--workload", "agent", "--strategies", ","], "--strategies is ','", id="no strategy"),
        pytest.param(["--strategies", "ray"], "--trace is not set; expected either", id="no traffic"),
        pytest.param([], "--workload NAME, which is one of conversation, agent", id="nothing"),
        pytest.param(
            ["--workload", "a", "--strategies", "ray"], "--workload is 'a'; expected one of", id="a"
        ),
        pytest.param([*AGENT, "--strategies", "ray", "--trace", "t"], "--trace is 't'", id="both"),
        pytest.param([*AGENT, "--strategies", "ray", "--replicas", "0"], "--replicas is 0", id="no replica"),
        pytest.param([*AGENT, "--strategies", "ray", "--load", "0"], "--load is 0.0", id="no load"),
        pytest.param([*AGENT, "--strategies", "ray", "--load", "nan"], "--load is nan", id="no number"),
        pytest.param(
            [*AGENT, "--strategies", "ray", "--cache-tokens", "1"], "--cache-tokens is 1", id="no cache"
        ),
        *(
            pytest.param(
                [*AGENT, "--strategies", "ray", option, "9" * 30], f"{option} is 9999", id=f"endless {option}"
            )
            for option in ("--replicas", "--routers", "--requests", "--cache-tokens", "--l2-tokens")
        ),
    ],
)
def test_a_wrong_value_names_itself_and_what_works(options: list[str], message: str) -> None:
    result = CliRunner().invoke(command, options)

    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)


def test_a_trace_that_is_not_there_is_named() -> None:
    result = CliRunner().invoke(command, ["--trace", "/nowhere/t.jsonl", "--strategies", "ray"])

    assert isinstance(result.exception, ManifestError)
    assert "/nowhere/t.jsonl" in str(result.exception)


@pytest.mark.skipif("HYPERTIER_TRACE" not in os.environ, reason="HYPERTIER_TRACE names no trace")
def test_a_recorded_trace_is_replayed() -> None:
    options = ["--trace", os.environ["HYPERTIER_TRACE"], "--strategies", "scoring,llm-d", "--format", "json"]

    found = json.loads(CliRunner().invoke(command, [*options, "--load", "1"]).output)["strategies"]

    assert found["scoring"]["ttft_p90_seconds"] < found["llm-d"]["ttft_p90_seconds"]
