from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.errors import ConfigError
from hypertier.lab.bench import BenchResult, Workload, lines, prompts, quantile, summary
from hypertier.lab.client import Answer

ANSWER = Answer("abc", "127.0.0.1:1", 100, 50, 0.25, 1.0)


def test_prompts_share_documents_evenly_and_end_alike_nowhere() -> None:
    workload = Workload(requests=12, prefixes=3, prompt_tokens=300)

    sent = prompts(workload)

    assert {len(prompt) for prompt in sent} == {300}
    assert sorted(Counter(prompt[:268] for prompt in sent).values()) == [4, 4, 4]
    assert len({prompt[:20] for prompt in sent}) == 3


def test_the_same_seed_sends_the_same_prompts() -> None:
    workload = Workload()

    assert prompts(workload) == prompts(workload) != prompts(replace(workload, seed=1))


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_a_value_that_its_share_does_not_exceed(values: list[float], ratio: float) -> None:
    found = quantile(values, ratio)

    assert found in values
    assert sum(value <= found for value in values) >= ratio * len(values)
    assert sum(value < found for value in values) < ratio * len(values)


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
        workload.check()
