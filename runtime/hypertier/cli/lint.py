"""`hypertier lint`: what no schema checks, said before anything is deployed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hypertier.spec.finding import Report
    from hypertier.spec.said import Language

LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # in the order in which POSIX asks them
FORMATS = ("text", "json", "sarif", "github")
LANGUAGES = ("en", "ko")
MAX_PATCHED_CHARACTERS = 16 * 1024
MAX_FIX_ROUNDS = 5  # an edit may bring to light what could not be seen before it


@click.command(
    "lint",
    epilog="Example: hypertier lint examples/reference/deployment.yaml --format json",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--fix", is_flag=True, help="Write the files with everything mended that follows from them.")
@click.option("--diff", is_flag=True, help="Print what --fix would change, and change nothing.")
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
def command(
    files: tuple[str, ...], form: str, fix: bool, diff: bool, operator_version: str | None, lang: str | None
) -> None:
    """Check manifests and deployment files against every rule.

    A deployment file brings the manifests it names; a folder brings every YAML and JSON file below; - is
    standard input. Exits with 0 where there is nothing or only warnings, 1 where there are errors, 2 where a
    file can't be read. With --fix, what is left afterwards counts.
    """
    from hypertier.errors import ConfigError
    from hypertier.spec import lint, report
    from hypertier.spec.rules.subject import parse_version

    language = lint_language(lang, os.environ)
    version = parse_version(operator_version) if operator_version is not None else None
    if operator_version is not None and version is None:
        raise ConfigError("--operator-version", operator_version, "a version such as 3.2")
    if fix and "-" in files:
        raise ConfigError("--fix", "-", "files; standard input can't be written to, --diff shows the patch")
    result = lint.lint_files(files, language=language, operator_version=version)
    written: dict[str, None] = {}
    for _ in range(MAX_FIX_ROUNDS if fix else 0):
        names = write_mended(result)
        if not names:
            break
        written.update(dict.fromkeys(names))
        result = lint.lint_files(files, language=language, operator_version=version)
    for name in written:
        click.echo(f"mended {name}" if language == "en" else f"고친 파일: {name}", err=True)
    patch = patch_of(result) if diff or (form == "text" and is_small(result)) else ""
    if diff:
        click.echo(patch, nl=False)
    else:
        click.echo(report.in_format(result, form, language, patch))
    sys.exit(result.exit_code)


def write_mended(result: Report) -> list[str]:
    """Write every file that can be mended, with the line ends it had; their names.

    Raises:
        ConfigError: a file cannot be written.
    """
    from hypertier.errors import ConfigError
    from hypertier.spec.fix import mended

    changes = mended(result)
    for change in changes:
        try:
            with open(change.file, "rb") as file:
                is_windows = b"\r\n" in file.read()
            with open(change.file, "w", encoding="utf-8", newline="\r\n" if is_windows else "\n") as file:
                file.write(change.after)
        except OSError as error:
            raise ConfigError(
                "--fix", change.file, f"files that can be written ({error.strerror})"
            ) from error
    return [change.file for change in changes]


def is_small(result: Report) -> bool:
    """Whether the patch takes no longer to make than one waits for findings."""
    return sum(len(source.pasted) for source in result.sources.values()) < MAX_PATCHED_CHARACTERS


def patch_of(result: Report) -> str:
    """What --fix would change, as a patch; empty, without the work, where nothing can be mended."""
    can_mend = any(finding.edits for finding in result.findings)
    if not can_mend and all(source.pasted == source.repaired for source in result.sources.values()):
        return ""
    from hypertier.spec.fix import mended

    return "".join(change.diff for change in mended(result))


def lint_language(chosen: str | None, environment: Mapping[str, str]) -> Language:
    """The language of messages: the chosen one, else the locale's where it is Korean, else English."""
    locale = next((environment[name] for name in LOCALE_VARIABLES if environment.get(name)), "")
    return "ko" if (chosen or locale[:2]) == "ko" else "en"
