"""One mistake at a time in every key of every example: refused in the words of the file, or harmless."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_mutations import Mutation, mutations

from hypertier.errors import ConfigError, HypertierError
from hypertier.planning.plan import plan_deployment
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.finding import Finding
from hypertier.spec.lint import lint_files

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/deployment.yaml"))


def mistakes() -> dict[Path, list[Mutation]]:
    """The mutations of every example, each of a kind once."""
    found: dict[Path, list[Mutation]] = {}
    seen = set()
    for file in EXAMPLES:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        for mutation in mutations(document):
            if str(mutation) not in seen:
                seen.add(str(mutation))
                found.setdefault(file, []).append(mutation)
    return found


MISTAKES = mistakes()


def refusal(file: Path) -> tuple[Deployment | None, HypertierError | None]:
    """What reading the file gives, or the error that ends it."""
    try:
        return load_deployment(file), None
    except HypertierError as error:
        return None, error


def names(mutation: Mutation, said: str) -> bool:
    """Whether a message names the key at fault, or the one that a misspelled key stands for."""
    keys = [part for part in mutation.place if isinstance(part, str)]
    return any(key in said for key in (keys[-1], keys[-1].removesuffix("x")))


def faults(mutation: Mutation, file: Path) -> Iterator[str]:
    """What is not as it should be when the file is linted, read and planned."""
    errors: list[Finding] = [
        finding for finding in lint_files([str(file)]).findings if finding.severity == "error"
    ]
    deployment, error = refusal(file)
    if error is not None and not errors:
        yield f"{mutation}: read says what lint does not: {error}"
    of_one_entry = isinstance(mutation.place[-1], int)
    if errors and not of_one_entry and not any(names(mutation, f"{e.path} {e.message}") for e in errors):
        yield f"{mutation}: lint does not name it: {errors[0].message}"
    if isinstance(error, ConfigError) and not of_one_entry and not names(mutation, str(error)):
        yield f"{mutation}: read does not name it: {error}"
    if deployment is not None and not errors:
        try:
            plan_deployment(deployment)
        except HypertierError as refused:
            yield f"{mutation}: planning says what lint does not: {refused}"


@pytest.mark.parametrize("file", MISTAKES, ids=lambda file: file.parent.name)
def test_every_mistake_is_named_by_lint_and_by_reading_alike(file: Path, tmp_path: Path) -> None:
    for manifest in file.parent.glob("*.yaml"):
        (tmp_path / manifest.name).write_text(manifest.read_text(encoding="utf-8"), encoding="utf-8")
    written = tmp_path / "deployment.yaml"
    found: list[Any] = []

    for mutation in MISTAKES[file]:
        written.write_text(yaml.safe_dump(mutation.document), encoding="utf-8")
        found += faults(mutation, written)

    assert found == []
