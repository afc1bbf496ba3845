"""What commands print for people fits into 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hypertier.cli.commands import cli
from hypertier.comparison.compare import Figures, Plan, Report
from hypertier.comparison.limits import FIGURES, verdicts
from hypertier.comparison.report import lines
from hypertier.comparison.statistics import Ratio
from hypertier.limits import read_limits, told
from hypertier.workload import Workload

WIDTH = 100
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/deployment.yaml"))


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def too_wide(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > WIDTH]


@pytest.mark.parametrize("path", [*commands(cli)], ids=" ".join)
def test_help_fits(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*path, "--help"], terminal_width=WIDTH)

    assert done.exit_code == 0
    assert too_wide(done.output) == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
@pytest.mark.parametrize("command", ["lint", "plan"])
def test_what_is_said_of_an_example_fits(command: str, file: Path) -> None:
    done = CliRunner().invoke(cli, [command, str(file)])

    assert done.exit_code == 0, done.output
    assert too_wide(done.output) == []


def test_a_comparison_of_which_nothing_is_sure_fits() -> None:
    seconds = {"ttft_p50": 10.1, "ttft_p90": 100.2}
    unsure = dict.fromkeys(seconds, Ratio(10.05, 0.64, 17.72))
    plan = Plan(strategies=("roundrobin", "prefixaware"), rounds=3, workload=Workload())
    figures = [
        Figures(name, seconds, None, 1000.0, None, 100, ratios)
        for name, ratios in (("roundrobin", {}), ("prefixaware", unsure))
    ]
    report = Report("http://127.0.0.1:24022", "Llama-3.1-70B-Instruct", plan, 49.0, figures, ())

    limits = read_limits(["ttft_p90_seconds > 1.1 * baseline"], FIGURES)
    judged = told([*verdicts(limits, figures)])

    assert too_wide("\n".join([*lines(report), *judged])) == []
