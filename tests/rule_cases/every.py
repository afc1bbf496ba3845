"""Every rule's cases, in the order of their files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from rule_cases.case import Case

FILES = sorted(file.stem for file in Path(__file__).parent.glob("*.py"))

CASES: list[Case] = [
    case
    for name in FILES
    if name not in ("case", "every")
    for case in import_module(f"rule_cases.{name}").CASES
]
