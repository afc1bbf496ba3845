from __future__ import annotations

from pathlib import Path

import click
import pytest

from hypertier.cli.lab import command

LAB_PAGE = (Path(__file__).parents[3] / "docs" / "lab.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_command_and_option_is_on_the_labs_page(name: str) -> None:
    parameters = command.commands[name].params
    options = [each.opts[0] for each in parameters if isinstance(each, click.Option)]

    assert f"`lab {name} FILE" in LAB_PAGE
    assert [option for option in options if f"`{option}" not in LAB_PAGE] == []


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_command_has_an_example(name: str) -> None:
    assert f"Example: hypertier lab {name} " in str(command.commands[name].epilog)
