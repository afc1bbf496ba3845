from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hypertier.errors import ConfigError, ManifestError
from hypertier.lab.bench import BenchResult, summary
from hypertier.lab.client import Answer
from hypertier.lab.limits import FIGURES, read_bench_limits

ANSWER = Answer("abc", "127.0.0.1:1", 100, 50, 0.25, 1.0)
OF_BASELINE = "ttft_p90_seconds > 1.1 * baseline"


def test_every_figure_of_a_run_can_be_limited_but_those_of_single_engines() -> None:
    figures = summary(BenchResult((ANSWER,), (), 2.0, {"GPU": 1, "L1": 0, "L2": 0}, {"engine-0": 1}))

    assert {name for name in figures if not name.startswith("requests_engine")} == set(FIGURES)


def test_what_a_run_printed_is_a_baseline(tmp_path: Path) -> None:
    file = tmp_path / "main.json"
    file.write_text(json.dumps(summary(BenchResult((ANSWER,), (), 2.0, {}, {}))))

    (limit,), before = read_bench_limits([OF_BASELINE], file)

    assert (limit.of_baseline, before[limit.figure]) == (True, 0.25)


def test_a_limit_of_a_baseline_needs_one() -> None:
    with pytest.raises(ConfigError, match="--baseline is not set; expected a file that --format json wrote"):
        read_bench_limits([OF_BASELINE], None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", ":1: is no JSON"),
        ("[1]", "is not what `hypertier lab bench --format json` prints"),
        ("{}", "is not what"),
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "main.json"
    file.write_text(content)

    with pytest.raises(ManifestError, match=re.escape(message)):
        read_bench_limits([OF_BASELINE], file)
