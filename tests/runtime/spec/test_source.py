"""YAML as documents with lines, within bounds."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import ManifestError
from hypertier.spec.source import MAX_BYTES, MAX_DEPTH, MAX_LINE_CHARACTERS, read_documents
from hypertier.spec.tree import Place, path

SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def only(text: str) -> Any:
    return read_documents(text, "a.yaml")[0]


@given(st.dictionaries(st.text(max_size=8), TREES, min_size=1, max_size=5))
def test_what_yaml_writes_is_read_back_the_same(data: dict[str, Any]) -> None:
    text = yaml.safe_dump(data)

    assert only(text).data == data


def test_every_value_has_its_line_and_column() -> None:
    document = only("a: 1\nb:\n  - x\n  - {c: d}\n")

    assert document.place(path("a")) == Place(1, 1)
    assert document.place(path("b", 1, "c")) == Place(4, 6)


def test_what_is_absent_stands_where_its_parent_does() -> None:
    document = only("a:\n  b: 1\n")

    assert document.place(path("a.x.y")) == Place(1, 1)


def test_documents_know_their_first_line() -> None:
    first, second = read_documents("a: 1\n---\nb: 2\n", "a.yaml")

    assert (first.first_line, second.first_line) == (1, 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("yes", True, id="truth-of-yaml-1.1"),
        pytest.param("2026-12-01", "2026-12-01", id="no-dates"),
        pytest.param('"1"', "1", id="quoted"),
        pytest.param("!!int x", "x", id="no-number-after-all"),
        pytest.param("!Ref Bucket", "Bucket", id="foreign-tag"),
        pytest.param("1e3", "1e3", id="float-of-yaml-1.1"),
        pytest.param("~", None, id="null"),
    ],
)
def test_scalars_are_read_as_kubernetes_reads_them(text: str, value: Any) -> None:
    assert only(f"a: {text}\n").data == {"a": value}


def test_a_duplicate_key_is_seen_and_the_last_one_wins() -> None:
    document = only("a:\n  b: 1\n  b: 2\n")

    assert document.duplicates == (path("a.b"),)
    assert document.data == {"a": {"b": 2}}


def test_aliases_and_merges_are_expanded() -> None:
    document = only("base: &base {a: 1, b: 2}\nmine:\n  <<: *base\n  b: 3\nsame: *base\n")

    assert document.data["mine"] == {"a": 1, "b": 3}
    assert document.data["same"] == {"a": 1, "b": 2}


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(BOMB, "aliases expanded", id="bomb"),
        pytest.param("a: &a [*a]", "names nothing complete", id="alias-to-itself"),
        pytest.param("a: *b", "undefined alias|names nothing", id="alias-to-nothing"),
        pytest.param("[" * (MAX_DEPTH + 1), "nests deeper", id="deep"),
        pytest.param("[" * 100_000, "line of 100000 characters", id="very-deep"),
        pytest.param("- " * 500, "nests deeper|not YAML", id="deep-blocks"),
        pytest.param("a: " + "x" * MAX_LINE_CHARACTERS, "is a line of", id="long-line"),
        pytest.param("a: x\n" * (MAX_BYTES // 4), "characters; expected at most", id="large"),
        pytest.param("? [a]\n: 1\n", "key that is no text", id="list-as-key"),
        pytest.param("a: \x00", "character that YAML forbids", id="forbidden-character"),
        pytest.param("a: b: c", "column", id="not-yaml"),
    ],
)
def test_what_no_manifest_needs_is_refused_with_its_line_or_as_a_whole(text: str, problem: str) -> None:
    with pytest.raises(ManifestError, match=problem) as refused:
        read_documents(text, "a.yaml")

    assert (refused.value.line is None) == (len(text) > MAX_BYTES)


@given(st.text(max_size=300))
def test_no_text_makes_reading_raise_anything_else(text: str) -> None:
    with contextlib.suppress(ManifestError):
        read_documents(text, "a.yaml")
