"""Every rule broken once and kept once, on valid manifests: what the tests of rules and of fixes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fakes_manifests import changed
from rule_cases.case import BASES, SELFHOSTED, Case
from rule_cases.every import CASES

from hypertier.spec.rules.subject import Subject, Surroundings
from hypertier.spec.tree import Document, View

__all__ = ["BASES", "CASES", "SELFHOSTED", "Case", "ids", "subject"]


def subject(case: Case, changes: Mapping[str, Any]) -> Subject:
    data = changed(BASES[case.kind](), changes)
    view = None if case.deployment is None else View(case.deployment)
    siblings = tuple(View(sibling) for sibling in case.siblings) if changes is case.broken else ()
    return Subject(case.kind, Document(data), Surroundings(view, case.operator, siblings))


def ids(case: Case) -> str:
    return f"{case.rule}-{case.name}" if case.name else case.rule
