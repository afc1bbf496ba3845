"""Findings as people, editors and machines read them."""

from __future__ import annotations

import json
from typing import Any

from hypertier.spec.finding import Finding, Report
from hypertier.spec.rules import RULES
from hypertier.spec.said import Language

PATCH_FOLLOWS = {"en": "--fix would make these changes:", "ko": "--fix 옵션은 다음과 같이 고칩니다:"}
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def in_format(report: Report, form: str, language: Language = "en", patch: str = "") -> str:
    """The report as `text`, `json`, `sarif` or `github`; `patch` is shown with text alone."""
    if form == "json":
        return as_json(report)
    if form == "sarif":
        return as_sarif(report, language)
    if form == "github":
        return as_github(report, language)
    return as_text(report, language, patch)


def as_text(report: Report, language: Language = "en", patch: str = "") -> str:
    """One line a finding, as compilers write them, the fix below; then the patch, and a line that sums up."""
    lines = []
    for finding in report.findings:
        lines.append(as_line(finding, language))
        if finding.fix is not None:
            lines.append(f"    {finding.path}: {json.dumps(finding.fix, ensure_ascii=False)}")
    if patch:
        lines += ["", PATCH_FOLLOWS[language], patch]
    lines.append(summary(report, language))
    return "\n".join(lines)


def as_line(finding: Finding, language: Language = "en") -> str:
    """`FILE:LINE:COLUMN: SEVERITY: MESSAGE [RULE]`, as lint, render and synth print it."""
    place = f"{finding.file}:{finding.line}:{finding.column}" if finding.line else finding.file
    return f"{place}: {_severity(finding, language)}: {finding.message} [{finding.rule}]"


def summary(report: Report, language: Language = "en") -> str:
    """How many errors and warnings in how many files."""
    errors = sum(finding.severity == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    foreign = report.num_foreign
    if language == "ko":
        beside = f" (그중 {foreign}개에는 검사할 것이 없음)" if foreign else ""
        return f"파일 {len(report.files)}개: 오류 {errors}개, 경고 {warnings}개{beside}"
    beside = f" ({foreign} of them with nothing to check)" if foreign else ""
    files = _count(len(report.files), "file")
    return f"{files}: {_count(errors, 'error')}, {_count(warnings, 'warning')}{beside}"


def as_json(report: Report) -> str:
    """A list of findings, each with file, line, path, severity, rule, message and fix."""
    return json.dumps([_plain(finding) for finding in report.findings], ensure_ascii=False, indent=2)


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        "file": finding.file,
        "line": finding.line,
        "path": finding.path,
        "severity": finding.severity,
        "rule": finding.rule,
        "message": finding.message,
        "fix": finding.fix,
    }


def as_sarif(report: Report, language: Language = "en") -> str:
    """SARIF 2.1.0, which code scanning reads (https://docs.oasis-open.org/sarif/sarif/v2.1.0/)."""
    rules = [
        {
            "id": rule.name,
            "shortDescription": {"text": rule.ko if language == "ko" else rule.en},
            "helpUri": rule.source if rule.source.startswith("https://") else None,
            "defaultConfiguration": {"level": rule.severity},
        }
        for rule in RULES.values()
    ]
    used = dict.fromkeys(finding.rule for finding in report.findings)
    rules += [{"id": name, "shortDescription": {"text": name}} for name in used if name not in RULES]
    run = {
        "tool": {
            "driver": {
                "name": "hypertier lint",
                "rules": [{key: value for key, value in rule.items() if value is not None} for rule in rules],
            }
        },
        "results": [_sarif_result(finding) for finding in report.findings],
    }
    return json.dumps(
        {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2
    )


def _sarif_result(finding: Finding) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": finding.file.replace("\\", "/")}}
    if finding.line:
        physical["region"] = {"startLine": finding.line, "startColumn": finding.column}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    return {
        "ruleId": finding.rule,
        "level": finding.severity,
        "message": {"text": finding.message},
        "locations": [location],
    }


def as_github(report: Report, language: Language = "en") -> str:
    """Workflow commands, which GitHub shows beside the changed lines of a pull request."""
    lines = []
    for finding in report.findings:
        properties = {
            "file": finding.file,
            **({"line": str(finding.line), "col": str(finding.column)} if finding.line else {}),
            "title": finding.rule,
        }
        said = ",".join(f"{name}={_escaped(value, property_=True)}" for name, value in properties.items())
        lines.append(f"::{finding.severity} {said}::{_escaped(finding.message)}")
    return "\n".join([*lines, summary(report, language)])


def _escaped(text: str, *, property_: bool = False) -> str:
    """Text inside a workflow command, as github.com/actions/toolkit (core/src/command.ts) escapes it."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if property_ else text


def _severity(finding: Finding, language: Language) -> str:
    if language == "ko":
        return "오류" if finding.severity == "error" else "경고"
    return finding.severity


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
