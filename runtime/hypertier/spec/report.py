"""Findings as people, editors and machines read them."""

from __future__ import annotations

import json
from typing import Any

from hypertier.spec.lint import Finding, Report
from hypertier.spec.rules.rule import Language


def as_text(report: Report, language: Language = "en") -> str:
    """One line a finding, as compilers write them, the fix below, and a line that sums up."""
    lines = []
    for finding in report.findings:
        lines.append(
            f"{finding.file}:{finding.line}:{finding.column}: {_severity(finding, language)}: "
            f"{finding.message} [{finding.rule}]"
        )
        if finding.fix is not None:
            lines.append(f"    {finding.path}: {json.dumps(finding.fix, ensure_ascii=False)}")
    lines.append(summary(report, language))
    return "\n".join(lines)


def summary(report: Report, language: Language = "en") -> str:
    """How many errors and warnings in how many files."""
    errors = sum(finding.severity == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    if language == "ko":
        return f"파일 {len(report.files)}개: 오류 {errors}개, 경고 {warnings}개"
    return f"{_count(len(report.files), 'file')}: {_count(errors, 'error')}, {_count(warnings, 'warning')}"


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


def _severity(finding: Finding, language: Language) -> str:
    if language == "ko":
        return "오류" if finding.severity == "error" else "경고"
    return finding.severity


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
