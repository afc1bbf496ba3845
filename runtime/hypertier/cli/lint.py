"""`hypertier lint`: what no schema checks, said before anything is deployed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hypertier.spec.rules.rule import Language

LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # in the order in which POSIX asks them
FORMATS = ("text", "json")
LANGUAGES = ("en", "ko")


@click.command(
    "lint",
    epilog="Example: hypertier lint examples/reference/deployment.yaml --format json",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option(
    "--operator-version",
    metavar="X.Y",
    help="AWS's operator that manifests without a deployment file will meet; fields it lacks are errors.",
)
@click.option(
    "--lang",
    type=click.Choice(LANGUAGES),
    default=None,
    help="Language of the messages; by default Korean in a Korean locale, else English.",
)
def command(files: tuple[str, ...], form: str, operator_version: str | None, lang: str | None) -> None:
    """Check manifests and deployment files against every rule.

    A deployment file brings the manifests it names; a folder brings every YAML and JSON file below; - is
    standard input. Exits with 0 where there is nothing or only warnings, 1 where there are errors, 2 where a
    file can't be read.
    """
    from hypertier.errors import ConfigError
    from hypertier.spec import lint, report
    from hypertier.spec.rules.subject import parse_version

    language = lint_language(lang, os.environ)
    version = parse_version(operator_version) if operator_version is not None else None
    if operator_version is not None and version is None:
        raise ConfigError("--operator-version", operator_version, "a version such as 3.2")
    result = lint.lint_files(files, language=language, operator_version=version)
    click.echo(report.as_json(result) if form == "json" else report.as_text(result, language))
    sys.exit(result.exit_code)


def lint_language(chosen: str | None, environment: Mapping[str, str]) -> Language:
    """The language of messages: the chosen one, else the locale's where it is Korean, else English."""
    locale = next((environment[name] for name in LOCALE_VARIABLES if environment.get(name)), "")
    return "ko" if (chosen or locale[:2]) == "ko" else "en"
