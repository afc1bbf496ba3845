"""Linting from Python: what a caller is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertier.spec.fix import mended
from hypertier.spec.lint import lint_files, lint_text

LISTED = """\
apiVersion: v1
kind: List
metadata:
  resourceVersion: ""
items:
- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: other
- apiVersion: inference.sagemaker.aws.amazon.com/v1
  kind: InferenceEndpointConfig
  metadata:
    name: chat
  spec:
    modelNam: llama
    replicas: "2"
"""


def test_every_object_of_a_list_is_checked_where_it_stands() -> None:
    found = {(f.line, f.path, f.rule) for f in lint_text(LISTED).findings}

    assert (15, "items[1].spec.modelNam", "unknown-field") in found
    assert (16, "items[1].spec.replicas", "wrong-type") in found
    assert not any(path.startswith("items[0]") for _, path, _ in found)


def test_what_a_list_says_of_an_object_is_what_a_file_of_its_own_would_say() -> None:
    alone = "\n".join(line[2:] for line in LISTED.splitlines()[9:])

    in_list = [(f.rule, f.message) for f in lint_text(LISTED).findings]

    assert in_list == [(f.rule, f.message) for f in lint_text(alone).findings]


def test_a_fix_changes_the_object_of_a_list_and_keeps_the_rest() -> None:
    (fixed,) = mended(lint_text(LISTED))

    assert fixed.after == LISTED.replace("modelNam:", "modelName:").replace('"2"', "2")


def test_an_entry_of_a_list_that_is_no_object_is_named() -> None:
    found = lint_text("apiVersion: v1\nkind: List\nitems:\n- 3\n").findings

    assert [(f.line, f.path, f.rule) for f in found] == [(4, "items[0]", "not-a-manifest")]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param(
            "serving: operator\naccess: {sharedCache: true}",
            ["access"],
            id="access-with-the-operator",
        ),
        pytest.param(
            "serving: neither\naccess: {sharedCache: true}", ["serving"], id="serving-alone-is-wrong"
        ),
        pytest.param(
            "access: {sharedCache: true, jwt: {jwks: ftp://a/b, issuer: i, audience: a}}",
            ["access.jwt.jwks"],
            id="jwks-of-another-scheme",
        ),
    ],
)
def test_section_access_is_named_as_it_stands_in_the_file(
    tmp_path: Path, changes: str, said: list[str]
) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(f"apiVersion: hypertier.dev/v1\nkind: Deployment\nendpoints: [e.yaml]\n{changes}\n")

    found = [f.path for f in lint_files([str(file)]).findings if f.rule == "setting"]

    assert found == said


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("{source: scripts/on.sh}", []),
        ("{source: scripts, file: on.sh}", []),
        ("{source: nowhere}", ["instanceGroups[0].lifecycle.source"]),
        ("{source: scripts}", ["instanceGroups[0].lifecycle.file"]),
        ("{source: scripts, file: off.sh}", ["instanceGroups[0].lifecycle.file"]),
    ],
)
def test_lifecycle_script_is_looked_for_before_anything_is_rendered(
    tmp_path: Path, script: str, said: list[str]
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "on.sh").write_text("true")
    file = tmp_path / "deployment.yaml"
    group = f"{{name: gpu, instanceType: ml.p5.48xlarge, count: 1, lifecycle: {script}}}"
    file.write_text(
        f"apiVersion: hypertier.dev/v1\nkind: Deployment\nendpoints: [e.yaml]\ninstanceGroups: [{group}]\n"
    )

    found = [f.path for f in lint_files([str(file)]).findings if f.rule == "setting"]

    assert found == said
