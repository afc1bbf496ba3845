"""What the validators found, read back from their report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Finding:
    """A rule, the detail that it names, and the path of the construct that breaks it."""

    rule: str
    detail: str
    where: str


def found_in(report: Path) -> set[Finding]:
    loaded: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    found = set()
    for plugin in loaded["pluginReports"]:
        for violation in plugin["violations"]:
            rule, _, detail = violation["ruleName"].removeprefix("AwsSolutions-").partition("[")
            for construct in violation["violatingConstructs"]:
                found.add(Finding(rule, detail.removesuffix("]"), construct["constructPath"]))
    return found
