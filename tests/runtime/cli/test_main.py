"""The command line's entry: what it lists, what it imports, how it ends."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hypertier.cli import commands, main
from hypertier.errors import ConfigError

CLI_FOLDER = Path(main.__file__).parent


def test_help_lists_every_command_that_has_a_module() -> None:
    modules = {file.stem for file in CLI_FOLDER.glob("*.py")} & set(commands.SUMMARIES)

    result = CliRunner().invoke(commands.cli, ["--help"])

    assert result.exit_code == 0
    assert {
        line.split()[0] for line in result.output.partition("Commands:")[2].splitlines() if line.strip()
    } >= modules


def test_every_listed_command_shows_help_with_an_example() -> None:
    names = [name for name in commands.SUMMARIES if (CLI_FOLDER / f"{name}.py").exists()]

    without = [
        name for name in names if "Example" not in CliRunner().invoke(commands.cli, [name, "--help"]).output
    ]

    assert not without


def test_a_command_that_does_not_exist_is_refused_by_name() -> None:
    result = CliRunner().invoke(commands.cli, ["lnit"])

    assert result.exit_code == 2
    assert "No such command 'lnit'. Did you mean 'lint'?" in result.output


def test_a_subcommand_that_does_not_exist_is_refused_by_name() -> None:
    result = CliRunner().invoke(commands.cli, ["cache", "claer"])

    assert result.exit_code == 2
    assert "Did you mean 'clear'?" in result.output


@pytest.mark.parametrize("group", ["cache", "lab", "router", "router key"])
def test_groups_say_what_each_command_does_to_the_end(group: str) -> None:
    listed = CliRunner().invoke(commands.cli, [*group.split(), "--help"]).output.partition("Commands:")[2]

    assert listed
    assert "..." not in listed


def test_a_word_that_is_like_no_command_is_not_guessed_at() -> None:
    assert "Did you mean" not in CliRunner().invoke(commands.cli, ["frobnicate"]).output


def test_help_imports_no_command() -> None:
    code = (
        "import sys\n"
        "from hypertier.cli.commands import cli\n"
        "cli(['--help'], standalone_mode=False)\n"
        "loaded = {name for name in sys.modules if name.startswith('hypertier.cli.')}\n"
        "print(loaded - {'hypertier.cli.main', 'hypertier.cli.commands', 'hypertier.cli.groups'})"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "set()"


def test_an_error_of_ours_is_one_message_and_exit_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise ConfigError("num_nodes", 1, "2 or more")

    monkeypatch.setattr(commands, "cli", fail)

    with pytest.raises(SystemExit) as ended:
        main.main()

    assert ended.value.code == 1
    assert capsys.readouterr().err == "hypertier: num_nodes is 1; expected 2 or more\n"


@pytest.mark.parametrize("name", ["lint", "plan"])
def test_every_option_is_in_the_command_s_page(name: str) -> None:
    page = (CLI_FOLDER.parents[2] / "docs" / f"{name}.md").read_text(encoding="utf-8")
    command = importlib.import_module(f"hypertier.cli.{name}").command

    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]

    assert [option for option in options if option not in page] == []
