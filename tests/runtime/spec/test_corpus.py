"""The corpus in tests/manifests: every file has exactly the findings that expected.yaml names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypertier.spec.fix import mended
from hypertier.spec.lint import lint_files, lint_text, read_text

FOLDER = Path(__file__).parents[2] / "manifests"
EXPECTED: dict[str, Any] = yaml.safe_load((FOLDER / "expected.yaml").read_text(encoding="utf-8"))
FILES = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.glob("*/*.yaml"))
DEPLOYMENTS = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.glob("*/*/deployment.yaml"))


def test_every_file_has_an_expectation_and_there_are_sixty_and_more() -> None:
    assert sorted(EXPECTED) == sorted(FILES + DEPLOYMENTS)
    assert len(FILES) >= 60


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_findings_it_must_have(name: str) -> None:
    report = lint_files([str(FOLDER / name)])

    found = [f"{finding.severity} {finding.rule} {finding.path}".strip() for finding in report.findings]

    assert sorted(found) == sorted(EXPECTED[name]["findings"])


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_deployment_has_the_findings_it_must_have(name: str) -> None:
    report = lint_files([str(FOLDER / name)])

    found = [f"{f.severity} {f.rule} {Path(f.file).name} {f.path}" for f in report.findings]

    assert sorted(found) == sorted(EXPECTED[name]["findings"])


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("valid/")])
def test_a_valid_file_is_clean(name: str) -> None:
    assert EXPECTED[name] == {"findings": [], "left": []}


@pytest.mark.parametrize("name", FILES)
def test_after_fixing_only_what_the_author_must_decide_is_left(name: str) -> None:
    text = read_text(str(FOLDER / name))

    for _ in range(5):
        changes = mended(lint_text(text))
        if not changes:
            break
        text = changes[0].after

    left = {finding.rule for finding in lint_text(text).findings if finding.severity == "error"}
    assert sorted(left) == EXPECTED[name]["left"]
    assert mended(lint_text(text)) == []


@pytest.mark.parametrize(
    ("flat", "original"),
    [("flat", "vllm-on-g5"), ("flat-two-tiers", "two-tiers-routed"), ("flat-jumpstart", "jumpstart")],
)
def test_a_flat_file_is_rebuilt_as_it_was(flat: str, original: str) -> None:
    report = lint_text(read_text(str(FOLDER / "pasted" / f"{flat}.yaml")))

    rebuilt = yaml.safe_load(report.sources["-"].repaired)

    assert rebuilt == yaml.safe_load((FOLDER / "valid" / f"{original}.yaml").read_text(encoding="utf-8"))


def test_findings_point_at_the_line_of_what_they_name() -> None:
    for name in FILES:
        if not name.startswith("faulty/"):
            continue
        lines = read_text(str(FOLDER / name)).splitlines()
        for finding in lint_files([str(FOLDER / name)]).findings:
            last = re.sub(r"\[\d+\]$", "", finding.path).rpartition(".")[2]
            line = lines[finding.line - 1]
            parents = [re.sub(r"\[\d+\]", "", part) for part in finding.path.split(".")]
            names_it = any(part in line for part in (last, *parents)) or line.lstrip().startswith("-")
            assert names_it or "." not in finding.path, (name, finding.path, line)
