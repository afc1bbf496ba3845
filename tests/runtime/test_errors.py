"""What an error says."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hypertier.errors import ConfigError

ROOT = Path(__file__).parents[2]
SOURCES = [file for folder in ("runtime", "constructs", "infra") for file in (ROOT / folder).rglob("*.py")]


ENDLESS: list[Any] = []
ENDLESS.append({"a": ENDLESS})
BOMB: list[Any] = ["x"] * 10
for _ in range(300):
    BOMB = [BOMB] * 10
"""As YAML's aliases make them, from a few lines of a file."""


@dataclass(frozen=True)
class Lifecycle:
    """A value of ours that nobody types."""

    source: str | None = None


@pytest.mark.parametrize(
    ("got", "shown"),
    [
        pytest.param("p5", "'p5'", id="text"),
        pytest.param(None, "not set", id="nothing"),
        pytest.param("", "empty", id="empty-text"),
        pytest.param((), "empty", id="empty-list"),
        pytest.param({}, "empty", id="empty-mapping"),
        pytest.param(True, "true", id="switch"),
        pytest.param(8000, "8000", id="number"),
        pytest.param(0.5, "0.5", id="fraction"),
        pytest.param(("a", None, ["b"]), "['a', null, ['b']]", id="lists"),
        pytest.param({"size": "2Ti", "ttl": None}, "{size: '2Ti', ttl: null}", id="mapping"),
        pytest.param(frozenset({"b", "a"}), "['a', 'b']", id="set"),
        pytest.param(Path("a/b.yaml"), "a/b.yaml", id="path"),
        pytest.param(date(2026, 12, 1), "2026-12-01", id="date"),
        pytest.param(Lifecycle(), f"an object of {Lifecycle.__module__}.Lifecycle", id="object"),
        pytest.param(Lifecycle, f"the class {Lifecycle.__module__}.Lifecycle", id="class"),
        pytest.param("a" * 5000, "'" + "a" * 199 + "…", id="long-text"),
        pytest.param([1] * 5000, "[" + "1, " * 66 + "1…", id="long-list"),
        pytest.param(ENDLESS, "[{a: " * 40 + "…", id="list-in-itself"),
        pytest.param(BOMB, "[" * 200 + "…", id="ten-to-the-three-hundred"),
        pytest.param(10**5000, "a number of thousands of digits", id="number-that-python-does-not-write"),
    ],
)
def test_a_setting_s_value_is_shown_as_typed_and_up_to_where_one_reads(got: Any, shown: str) -> None:
    error = ConfigError("cache.l2.size", got, "an amount of memory")

    assert str(error) == f"cache.l2.size is {shown}; expected an amount of memory"
    assert error.got == got


def told_by_hand(file: Path) -> list[int]:
    """Lines of a ConfigError whose setting or advice writes a value as Python does, or speaks of `None`."""
    found = []
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "ConfigError"):
            continue
        for part in (node for argument in call.args for node in ast.walk(argument)):
            as_python = isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
            none = isinstance(part, ast.Constant) and isinstance(part.value, str) and "None" in part.value
            if as_python or none:
                found.append(call.lineno)
    return found


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_setting_s_name_and_what_works_are_in_the_user_s_words(file: Path) -> None:
    assert told_by_hand(file) == []
