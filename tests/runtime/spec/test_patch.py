"""Edits in place: the data that writing anew would give, and every other byte as it was."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from fakes_rules import CASES, Case, ids, subject
from ruamel.yaml.comments import CommentedMap

from hypertier.spec.fix import apply, mended
from hypertier.spec.lint import lint_text
from hypertier.spec.patch import patched
from hypertier.spec.rules import RULES, Edit
from hypertier.spec.tree import path

STYLES: dict[str, Callable[[Any], str]] = {
    "block": lambda data: yaml.safe_dump(data, sort_keys=False),
    "four-spaces": lambda data: yaml.safe_dump(data, sort_keys=False, indent=4),
    "flow": lambda data: yaml.safe_dump(data, sort_keys=False, default_flow_style=True, width=60),
    "mixed": lambda data: yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=50),
    "json": lambda data: json.dumps(data, indent=4),
    "json-line": json.dumps,
}
ORDER = ("rename", "move", "remove", "set")
TEXT = """\
# who: platform team
spec:
    worker:   {image:  'a' ,   ports: [ 1,
                 2 ]}   # wrapped


    args: [--a,
           --b]
    env:
    -   name: A   # first
        value: "1"

    -   {name: B,  value:  x}
    # the end of env
    empty:
    metrics:   # none yet
    note: |
        two
        lines
    only:
        child: 1
"""


def commented(data: Any) -> Any:
    if isinstance(data, dict):
        return CommentedMap({key: commented(value) for key, value in data.items()})
    return [commented(value) for value in data] if isinstance(data, list) else data


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def edits_of(case: Case) -> tuple[Any, list[Edit]]:
    """A case's manifest, and what its rule would change, in the order in which it is made."""
    broken = subject(case, case.broken)
    found = [edit for hit in RULES[case.rule].check(broken) for edit in hit.edits]
    unique = [edit for index, edit in enumerate(found) if edit not in found[:index]]
    return broken.manifest.data, sorted(unique, key=lambda edit: ORDER.index(edit.action))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("case", [case for case in CASES if edits_of(case)[1]], ids=ids)
def test_in_place_comes_to_the_same_data_in_every_style(case: Case, style: str) -> None:
    data, edits = edits_of(case)
    expected = commented(copy.deepcopy(data))
    for edit in edits:
        apply(expected, edit)

    after = patched(STYLES[style](data), {0: edits})

    assert after is not None
    assert yaml.safe_load(after) == plain(expected)


@pytest.mark.parametrize(
    ("edits", "changes"),
    [
        pytest.param(
            [Edit("set", path("spec.worker.image"), "it's")],
            [
                "-    worker:   {image:  'a' ,   ports: [ 1,",
                "+    worker:   {image:  'it''s' ,   ports: [ 1,",
            ],
            id="a value in its quotes",
        ),
        pytest.param(
            [Edit("set", path("spec.env", 0, "value"), "true")],
            ['-        value: "1"', '+        value: "true"'],
            id="a value in double quotes",
        ),
        pytest.param(
            [Edit("set", path("spec.empty"), 8000)], ["-    empty:", "+    empty: 8000"], id="no value yet"
        ),
        pytest.param(
            [Edit("set", path("spec.metrics.port"), 8000), Edit("set", path("spec.metrics.path"), "/m")],
            ["+      port: 8000", "+      path: /m"],
            id="two below a key without a value",
        ),
        pytest.param(
            [Edit("set", path("spec.new.port"), 8000), Edit("set", path("spec.new.path"), "/m")],
            ["+    new:", "+      port: 8000", "+      path: /m"],
            id="two below a key that is not there",
        ),
        pytest.param(
            [Edit("set", path("spec.worker.tag"), "v1")],
            ["-                 2 ]}   # wrapped", "+                 2 ], tag: v1}   # wrapped"],
            id="one more in a flow mapping",
        ),
        pytest.param(
            [Edit("set", path("spec.args"), ["--a", "--b", "--c"])],
            ["-           --b]", "+           --b,", "+           --c]"],
            id="one more in a flow list",
        ),
        pytest.param(
            [
                Edit(
                    "set",
                    path("spec.env"),
                    [{"name": "A", "value": "1"}, {"name": "B", "value": "x"}, {"name": "C", "value": "0"}],
                )
            ],
            ['+    - {name: C, value: "0"}'],
            id="one more in a list",
        ),
        pytest.param(
            [Edit("rename", path("spec.note"), "about")],
            ["-    note: |", "+    about: |"],
            id="a key",
        ),
        pytest.param(
            [
                Edit("rename", path("spec.env"), "environment"),
                Edit("set", path("spec.environment", 1, "name"), "C"),
            ],
            [
                "-    env:",
                "+    environment:",
                "-    -   {name: B,  value:  x}",
                "+    -   {name: C,  value:  x}",
            ],
            id="a value below a key that is renamed",
        ),
        pytest.param(
            [Edit("remove", path("spec.note"))],
            ["-    note: |", "-        two", "-        lines"],
            id="no key any more",
        ),
        pytest.param(
            [Edit("remove", path("spec.env", 0, "name"))],
            ["-    -   name: A   # first", '-        value: "1"', '+    -   value: "1"'],
            id="no key behind a dash any more",
        ),
        pytest.param(
            [Edit("remove", path("spec.worker.image"))],
            [
                "-    worker:   {image:  'a' ,   ports: [ 1,",
                "+    worker:   {ports: [ 1,",
            ],
            id="no key in a flow mapping any more",
        ),
        pytest.param(
            [Edit("remove", path("spec.only.child"))],
            ["-    only:", "-        child: 1", "+    only: {}"],
            id="no last key any more",
        ),
        pytest.param(
            [Edit("move", path("spec.env"), path("spec.only.env"))],
            [
                "-    env:",
                "-    -   name: A   # first",
                '-        value: "1"',
                "-",
                "-    -   {name: B,  value:  x}",
                "+        env:",
                "+        -   name: A   # first",
                '+            value: "1"',
                "+",
                "+        -   {name: B,  value:  x}",
            ],
            id="a block elsewhere",
        ),
        pytest.param([Edit("set", path("spec.args", 7), "x")], [], id="no such place"),
        pytest.param([Edit("rename", path("spec.note"), "env")], [], id="a name that is taken"),
    ],
)
def test_no_byte_changes_that_no_edit_is_about(edits: list[Edit], changes: list[str]) -> None:
    after = patched(TEXT, {0: edits})

    assert after is not None
    diff = list(difflib.unified_diff(TEXT.splitlines(), after.splitlines(), n=0, lineterm=""))
    made = [line for line in diff[2:] if not line.startswith("@@")]
    assert sorted(made) == sorted(changes)


@pytest.mark.parametrize(
    "text", ["a: 1", "a: 1\n# end", "# only\n--- \na: 1\n...\n", "%YAML 1.1\n---\na: 1\n", "---\n---\na: 1\n"]
)
def test_what_stands_around_a_document_stays(text: str) -> None:
    after = patched(text, {0: [Edit("set", path("b"), 2), Edit("set", path("a"), 3)]})

    assert after == text.replace("a: 1", "a: 3\nb: 2")


def test_only_the_document_that_is_meant_changes() -> None:
    assert patched("a: 1\n---\na: 1\n", {1: [Edit("set", path("a"), 2)]}) == "a: 1\n---\na: 2\n"


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(Edit("set", path("spec.note"), "x"), id="a block of text"),
        pytest.param(Edit("set", path("spec.args"), ["--c"]), id="another list"),
        pytest.param(Edit("set", path("spec.worker"), 7), id="a number for a mapping"),
    ],
)
def test_what_takes_a_new_text_is_not_done_in_place(edit: Edit) -> None:
    assert patched(TEXT, {0: [edit]}) is None


def test_lint_fix_leaves_wrapped_lists_and_odd_spaces_alone() -> None:
    text = (
        "apiVersion: inference.sagemaker.aws.amazon.com/v1\n"
        "kind: InferenceEndpointConfig\n"
        "metadata: { name: a ,   namespace: b }\n"
        "spec:\n"
        "    instanceType:   g5.12xlarge   # four\n"
        "    worker:\n"
        "        args: [--max-model-len, '8192',\n"
        "               --port,   '8000']\n"
    )

    (change,) = mended(lint_text(text))

    assert change.after == text.replace("g5.12xlarge", "ml.g5.12xlarge")
