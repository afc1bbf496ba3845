"""docs/scaling.md tells every option, series and metric."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertier.cli.exporter import command
from hypertier.exporter.exporter import Health
from hypertier.exporter.metrics import ALL_SERIES, VLLM_METRICS, Series

PAGE = (Path(__file__).parents[3] / "docs" / "scaling.md").read_text(encoding="utf-8")
OPTIONS = [option for parameter in command.params for option in parameter.opts + parameter.secondary_opts]


@pytest.mark.parametrize("series", ALL_SERIES, ids=lambda series: series.name)
def test_every_series_is_told_in_the_same_words(series: Series) -> None:
    assert f"| `{series.name}` | {series.unit} | {series.meaning} |" in PAGE


@pytest.mark.parametrize("word", [*VLLM_METRICS, *OPTIONS, *(set(vars(Health())) - {"healthy"})])
def test_every_option_and_metric_is_told(word: str) -> None:
    assert f"`{word}`" in PAGE or f"`{word} " in PAGE
