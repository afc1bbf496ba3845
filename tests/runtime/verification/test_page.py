"""docs/verify.md tells every option, check and series."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes_endpoint import FakeEndpoint, fake_endpoint

from hypertier.cli.verify import command
from hypertier.exporter.metrics import VERIFY_SERIES, Series
from hypertier.verification.endpoint import Endpoint
from hypertier.verification.verify import MAX_TRIES, Verifier, Wish

PAGE = (Path(__file__).parents[3] / "docs" / "verify.md").read_text(encoding="utf-8")
OPTIONS = [
    option
    for parameter in command.params
    for option in parameter.opts + parameter.secondary_opts
    if option.startswith("--")
]


@pytest.mark.parametrize("series", VERIFY_SERIES, ids=lambda series: series.name)
def test_every_series_is_told_in_the_same_words(series: Series) -> None:
    assert f"| `{series.name}` | {series.unit} | {series.meaning} |" in PAGE


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_told(option: str) -> None:
    assert f"`{option}`" in PAGE


def test_every_check_is_told_and_no_run_asks_more_often_than_the_page_says() -> None:
    state = FakeEndpoint(caches=False, by_header=False, turns=True, replicas=tuple("abcdefghijklmnopqrst"))
    with fake_endpoint(state):
        report = Verifier(Endpoint(state.url), Wish(prompt_tokens=64), sleep=lambda seconds: None).run()

    assert [check.name for check in report.checks if f"| `{check.name}` |" not in PAGE] == []
    assert len(report.asked) <= 1 + 2 * MAX_TRIES
    assert f"{1 + 2 * MAX_TRIES} requests are sent at most" in PAGE
