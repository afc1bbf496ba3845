"""A field that our serving refuses has to go, so nothing else is said of it, nor of what it would need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_manifests import REMOVED, changed, deployment, endpoint
from fakes_rules import CASES, ids

from hypertier.spec.lint import lint_files
from hypertier.spec.rules.rule import ENDPOINT

REFUSED = "not-served-here"
MANIFESTS = [
    pytest.param(changes, id=f"{ids(case)}-{name}")
    for case in CASES
    if case.kind == ENDPOINT
    for name, changes in (("broken", case.broken), ("whole", case.whole))
    if changes
]


def said(folder: Path, manifest: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    (folder / "deployment.yaml").write_text(yaml.safe_dump(deployment()), encoding="utf-8")
    (folder / "endpoint.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    findings = lint_files([str(folder / "deployment.yaml")]).findings
    # Once nothing is refused, the objects are made.
    return sorted((f.rule, f.path, f.message) for f in findings if f.rule != "not-rendered")


@pytest.mark.parametrize("changes", MANIFESTS)
def test_what_is_refused_changes_nothing_else_that_is_said(
    changes: Mapping[str, Any], tmp_path: Path
) -> None:
    manifest = changed(endpoint(), changes)

    findings = said(tmp_path, manifest)

    refused = {where: REMOVED for rule, where, _ in findings if rule == REFUSED}
    rest = [finding for finding in findings if finding[0] != REFUSED]
    assert rest == said(tmp_path, changed(manifest, refused))
