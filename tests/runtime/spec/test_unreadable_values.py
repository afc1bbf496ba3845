"""What can't be read, or be at all, is said once: no further rule judges it, there or elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypertier.spec.lint import lint_files
from hypertier.spec.tree import dotted, leaves

EXAMPLES = Path(__file__).parents[3] / "examples"
NAMES = sorted(
    str(file.relative_to(EXAMPLES))
    for name in ("disaggregated", "small")
    for file in (EXAMPLES / name).glob("*.yaml")
)
ODD = ("12XB", -1, True, [], {}, 10**18, None)
READING = (
    "missing-field",
    "wrong-type",
    "not-a-choice",
    "out-of-bounds",
    "bad-quantity",
    "argument-form",
    "setting",
)


def with_odd_values(document: Any) -> Iterator[tuple[str, Any]]:
    """`document` with one value replaced, and where that is."""
    for where, _ in leaves(document):
        for odd in ODD:
            changed = copy.deepcopy(document)
            holder = changed
            for part in where[:-1]:
                holder = holder[part]
            holder[where[-1]] = odd
            yield dotted(where), changed


@pytest.mark.parametrize("name", NAMES)
def test_a_value_that_cannot_be_read_is_one_finding(name: str, tmp_path: Path) -> None:
    for file in (EXAMPLES / name).parent.glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    document = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    num_unreadable, several = 0, []

    for where, changed in with_odd_values(document):
        (tmp_path / Path(name).name).write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")
        findings = lint_files([str(tmp_path / "deployment.yaml")]).findings
        if any(finding.path == where and finding.rule in READING for finding in findings):
            num_unreadable += 1
            if len(findings) > 1:
                several.append([(finding.path, finding.rule) for finding in findings])

    assert num_unreadable > 10
    assert several == []
