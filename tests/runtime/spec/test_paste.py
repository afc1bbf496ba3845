"""What pasting did to a manifest is undone, line by line, and nothing else is touched."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from fakes_manifests import endpoint, jumpstart
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.errors import ManifestError
from hypertier.spec.paste import understand

WHOLE = yaml.safe_dump(endpoint(), sort_keys=False)
CORPUS = Path(__file__).parents[2] / "manifests"


def rules(text: str) -> list[str]:
    return [repair.rule for repair in understand(text, "a.yaml").repairs]


@pytest.mark.parametrize("file", sorted((CORPUS / "valid").glob("*.yaml")), ids=lambda file: str(file.stem))
def test_a_file_that_nobody_damaged_is_left_as_it_is(file: Path) -> None:
    text = file.read_text(encoding="utf-8")

    understood = understand(text, "a.yaml")

    assert understood.repairs == ()
    assert understood.text == text


@pytest.mark.parametrize("file", sorted((CORPUS / "pasted").glob("*.yaml")), ids=lambda file: str(file.stem))
def test_repairs_keep_the_number_of_lines(file: Path) -> None:
    text = file.read_bytes().decode("utf-8")

    understood = understand(text, "a.yaml")

    assert understood.text.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        pytest.param(("  ", "\t"), "paste-tab", id="tabs"),
        pytest.param(("  ", "\u00a0\u00a0"), "paste-space", id="no-break-spaces"),
        pytest.param(("spec:", "sp\u200bec:"), "paste-space", id="invisible"),
        pytest.param(("replicas: 2", "replicas:2"), "paste-colon", id="tight-colon"),
        pytest.param(("'0'", "\u201c0\u201d"), "paste-quotes", id="typographic-quotes"),
        pytest.param(("ml.g5.12xlarge", "`ml.g5.12xlarge`"), "paste-markdown", id="backticks"),
        pytest.param(("'0'", "&#39;0&#39;"), "paste-html", id="entities"),
        pytest.param(("replicas: 2", "replicas\uff1a 2"), "paste-colon", id="wide-colon"),
    ],
)
def test_one_kind_of_damage_is_named_and_undone(damage: tuple[str, str], rule: str) -> None:
    text = WHOLE.replace(*damage)

    understood = understand(text, "a.yaml")

    assert [repair.rule for repair in understood.repairs] == [rule]
    assert [document.data for document in understood.documents] == [endpoint()]


def test_every_colon_may_have_lost_its_space() -> None:
    text = re.sub(r"(?m)^(\s*(?:- )?\w+): (\S)", r"\1:\2", WHOLE)

    assert [document.data for document in understand(text, "a.yaml").documents] == [endpoint()]


@pytest.mark.parametrize(
    "margin",
    [
        pytest.param(lambda number: f"{number:4} ", id="numbers"),
        pytest.param(lambda number: f"{number}: ", id="numbers-and-colons"),
        pytest.param(lambda number: "> ", id="quotation"),
    ],
)
def test_what_stands_before_every_line_is_taken_away(margin: Callable[[int], str]) -> None:
    text = "\n".join(margin(number) + line for number, line in enumerate(WHOLE.splitlines(), start=1))

    understood = understand(text, "a.yaml")

    assert [repair.rule for repair in understood.repairs] == ["paste-margin"]
    assert [document.data for document in understood.documents] == [endpoint()]


def test_spaces_inside_quotes_are_meant() -> None:
    text = WHOLE.replace("'0'", "'a\u3000b'")

    assert rules(text) == []


@pytest.mark.parametrize("line", ["    ...", "    and so on", "    # kept"])
def test_a_line_without_a_place_is_refused_rather_than_joined_to_another(line: str) -> None:
    flat = "\n".join(text.lstrip() for text in WHOLE.replace("    args:", f"{line}\n    args:").splitlines())

    try:
        documents = understand(flat, "a.yaml").documents
    except ManifestError:
        return

    assert [document.data for document in documents] == [endpoint()]


def test_a_document_after_another_without_a_mark_is_one_of_its_own() -> None:
    text = f"{WHOLE}\n{yaml.safe_dump(jumpstart(), sort_keys=False)}"

    understood = understand(text, "a.yaml")

    assert [document.data for document in understood.documents] == [endpoint(), jumpstart()]


def test_windows_line_ends_and_a_byte_order_mark_are_no_damage() -> None:
    assert rules("\ufeff" + WHOLE.replace("\n", "\r\n")) == []


def test_prose_becomes_comments_and_stays_readable() -> None:
    understood = understand(f"Save this file:\n\n{WHOLE}", "a.yaml")

    assert understood.text.startswith("# Save this file:\n")
    assert understood.repairs[0].line == 1


def test_what_cannot_be_understood_is_refused_with_its_line() -> None:
    text = WHOLE.replace("replicas: 2", "replicas: [2")

    with pytest.raises(ManifestError) as refused:
        understand(text, "a.yaml")

    assert refused.value.line > 5
    assert "column" in refused.value.problem


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(len(WHOLE.splitlines()))).map(lambda order: order[:6]))
def test_lines_without_their_indentation_are_rebuilt(lost: list[int]) -> None:
    """Whichever lines lost theirs, the document either reads as it was or is refused; it is never another."""
    lines = WHOLE.splitlines()
    damaged = "\n".join(line.lstrip() if index in lost else line for index, line in enumerate(lines))

    try:
        understood = understand(damaged, "a.yaml")
    except ManifestError:
        return

    if understood.repairs:
        kinds = [document.data.get("kind") for document in understood.documents]
        assert kinds == ["InferenceEndpointConfig"]


def test_a_manifest_indented_as_a_whole_with_its_mark_is_read() -> None:
    """As copied out of a numbered list, where AWS's own page has it so."""
    indented = "".join(f"    {line}\n" for line in ["---", *WHOLE.splitlines()])

    understood = understand(indented, "a.yaml")

    assert [repair.rule for repair in understood.repairs] == ["paste-indentation"]
    assert [document.data for document in understood.documents if document.data] == [endpoint()]


def test_a_flat_document_is_rebuilt_from_its_fields() -> None:
    flat = "\n".join(line.lstrip() for line in WHOLE.splitlines())

    understood = understand(flat, "a.yaml")

    assert [repair.rule for repair in understood.repairs] == ["paste-indentation"]
    assert understood.documents[0].data == endpoint()
