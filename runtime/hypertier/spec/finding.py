"""What linting says, and the report that it makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypertier.spec.rules.rule import Edit, Severity

UNREADABLE = "unreadable"
REFUSES_A_VALUE = (
    "placeholder",
    "kind-or-version",
    "missing-field",
    "wrong-type",
    "not-a-choice",
    "out-of-bounds",
    "refused-later",
    "bad-quantity",
    "argument-form",
    "instance-type-prefix",
    "setting",
    "memory-over-node",
)
"""Rules after which no other is asked about the same value: the first one that speaks is what to mend."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say about a file. `fix` is the value that belongs at `path`, or None.

    `line` and `column` count from 1; a `line` of 0 is the file as a whole, such as one that is not there.
    """

    file: str
    line: int
    column: int
    path: str
    severity: Severity
    rule: str
    message: str
    fix: Any = None
    edits: tuple[Edit, ...] = ()
    document: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text with plain line ends, and the same after what pasting did to it was undone."""

    pasted: str
    repaired: str


@dataclass(frozen=True, slots=True)
class Report:
    """What linting found, in the order of the files and their lines; `sources` holds those that were read.

    `num_foreign` of the files, found in folders, hold nothing that lint knows.
    """

    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    sources: Mapping[str, Source] = field(default_factory=dict)
    num_foreign: int = 0

    @property
    def exit_code(self) -> int:
        """2 where a file could not be read, 1 where there is an error, else 0."""
        if any(finding.rule == UNREADABLE for finding in self.findings):
            return 2
        return 1 if any(finding.severity == "error" for finding in self.findings) else 0


def once_a_place(findings: Iterable[Finding]) -> list[Finding]:
    """Without what is said of a value that can't be read, or can't be at all, beside that."""
    found = list(findings)
    first: dict[str, str] = {}
    for rule in REFUSES_A_VALUE:
        for finding in found:
            if finding.rule == rule:
                first.setdefault(finding.path, rule)
    return [finding for finding in found if first.get(finding.path, finding.rule) == finding.rule]
