from __future__ import annotations

import json

import pytest

from hypertier.simulation.cluster import Outcome
from hypertier.simulation.engine import Job
from hypertier.simulation.report import as_html, as_json, as_text, summarize
from hypertier.simulation.trace import TracedRequest


def outcome() -> Outcome:
    jobs = []
    for number, (wait, cached, l2) in enumerate([(1.0, 0, 0), (2.0, 50, 20), (3.0, 100, 0), (4.0, 50, 0)]):
        job = Job(TracedRequest(10.0 + number, 100, 25, (number,)), number)
        job.first_token_at, job.cached_tokens, job.l2_tokens = job.request.at + wait, cached, l2
        jobs.append(job)
    return Outcome(jobs, [3.0, 1.0], 20.0)


def test_a_summary_counts_tokens_waits_and_balance() -> None:
    summary = summarize(outcome(), usd_per_replica_hour=36.0)

    assert summary.hit_ratio == 0.5
    assert summary.hit_ratio_l2 == 0.05
    assert (summary.ttft_p50_seconds, summary.ttft_p90_seconds) == (2.0, 4.0)
    assert summary.tokens_per_second == 50.0
    assert summary.imbalance_ratio == 1.5
    # two replicas for 10 seconds at a cent a second, for 500 tokens
    assert summary.usd_per_million_tokens == pytest.approx(0.2 / 500 * 1e6)


def test_json_has_every_strategy_with_every_field() -> None:
    text = as_json({"prefixaware": summarize(outcome())})

    assert set(json.loads(text)["strategies"]["prefixaware"]) == {
        "hit_ratio",
        "hit_ratio_l2",
        "ttft_p50_seconds",
        "ttft_p90_seconds",
        "tokens_per_second",
        "imbalance_ratio",
        "usd_per_million_tokens",
    }


def test_text_is_a_table_with_columns_that_line_up() -> None:
    lines = as_text({"a": summarize(outcome()), "much-longer": summarize(outcome(), 1000.0)}).splitlines()

    assert len({len(line) for line in lines}) == 1
    assert lines[1].split()[:2] == ["a", "50.0%"]


def test_a_page_shows_names_as_text() -> None:
    page = as_html({"<b>": summarize(outcome())}, "a & b")

    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "<h1>a &amp; b</h1>" in page
