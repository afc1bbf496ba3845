"""docs/routing.md tells every option, policy and constant."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertier.cli import capture_trace
from hypertier.cli.simulate import FORMATS, command
from hypertier.router.strategies import loads, prefill_times, scoring
from hypertier.simulation.catalog import ROUTED, SCORING
from hypertier.simulation.peers import PEERS
from hypertier.simulation.workloads import WORKLOADS

PAGE = (Path(__file__).parents[3] / "docs" / "routing.md").read_text(encoding="utf-8")
PARAMETERS = [*command.params, *capture_trace.command.params]
OPTIONS = [
    option
    for parameter in PARAMETERS
    for option in parameter.opts + parameter.secondary_opts
    if option.startswith("-")
]


@pytest.mark.parametrize("word", [*OPTIONS, *FORMATS, *WORKLOADS, *ROUTED, SCORING, *PEERS])
def test_every_word_that_can_be_typed_is_told(word: str) -> None:
    assert f"`{word}`" in PAGE or f"`{word} " in PAGE


def test_the_formula_is_told_with_its_numbers() -> None:
    assert f"+ {scoring.RETURNING:g} * mean prefill * in flight / (1 + crowd)" in PAGE
    assert f"the last {loads.MEAN_SECONDS:g} seconds" in PAGE
    assert f"Until {prefill_times.MIN_OBSERVATIONS} first tokens" in PAGE
    assert f"more than {scoring.SMALL_SET} replicas" in PAGE
    assert f"a factor of {prefill_times.PrefillModel.LIMIT:g}" in PAGE
