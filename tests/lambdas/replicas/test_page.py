"""docs/scaling.md tells every setting and annotation of the hook."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertier_lambdas.replicas.deployment import ANNOTATIONS
from hypertier_lambdas.replicas.settings import DEFAULT_COOLDOWN_SECONDS, VARIABLES

PAGE = (Path(__file__).parents[3] / "docs" / "scaling.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "meaning"), VARIABLES.items())
def test_every_setting_is_told_in_the_same_words(name: str, meaning: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))

    assert meaning.partition("; default")[0] in row


def test_the_default_cooldown_is_told() -> None:
    assert f"| `COOLDOWN_SECONDS` | {DEFAULT_COOLDOWN_SECONDS} |" in PAGE


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_every_annotation_is_told(annotation: str) -> None:
    assert f"`{annotation}`" in PAGE
