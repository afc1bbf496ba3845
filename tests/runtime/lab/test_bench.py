from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hypertier.errors import ConfigError
from hypertier.lab.bench import BenchResult, check, lines, summary
from hypertier.lab.client import Answer
from hypertier.workload import Workload

ANSWER = Answer("abc", "127.0.0.1:1", 100, 50, 0.25, 1.0)


def test_the_summary_has_times_and_sources() -> None:
    answers = (ANSWER, replace(ANSWER, ttft_seconds=0.5, cached_tokens=100))
    result = BenchResult(answers, (), 2.0, {"GPU": 150, "L2": 0}, {"engine-0": 2})

    figures = summary(result)

    assert figures["requests_per_second"] == 1.0
    assert (figures["ttft_p50_seconds"], figures["ttft_p99_seconds"]) == (0.25, 0.5)
    assert (figures["cached_ratio"], figures["cached_tokens_GPU"]) == (0.75, 150)
    assert "requests_engine-0" in "\n".join(lines(figures))


def test_no_answer_has_no_times() -> None:
    assert summary(BenchResult((), ("broke off",), 2.0, {}, {})) == {"requests": 0, "failed": 1}


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        pytest.param(Workload(requests=0), "--requests is 0; expected 1 or more", id="requests"),
        pytest.param(Workload(concurrency=-1), "--concurrency is -1; expected 1 or more", id="concurrency"),
        pytest.param(Workload(max_tokens=0), "--max-tokens is 0; expected 1 or more", id="max tokens"),
        pytest.param(Workload(prompt_tokens=63), "--prompt-tokens is 63; expected 64 to 8144", id="short"),
        pytest.param(Workload(prompt_tokens=8200), "--prompt-tokens is 8200; expected 64 to 8144", id="long"),
    ],
)
def test_a_workload_that_cannot_be_sent_is_named(workload: Workload, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        check(workload)
