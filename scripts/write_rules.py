"""Writes the table of rules in docs/lint.md anew from the rules themselves."""

from __future__ import annotations

import re
from pathlib import Path

from hypertier.spec.rules import RULES
from hypertier.spec.rules.rule import Rule

PAGE = Path(__file__).parent.parent / "docs" / "lint.md"
BEGIN, END = "<!-- rules: written by scripts/write_rules.py -->", "<!-- end of rules -->"


def row(rule: Rule) -> str:
    """One row of the table: name, severity, what it says, where it comes from."""
    said = re.sub(r"\{(\w+)\}", r"*\1*", rule.en).replace("|", "\\|")
    source = f"[source]({rule.source})" if rule.source.startswith("https://") else f"`{rule.source}`"
    return f"| `{rule.name}` | {rule.severity} | {said} | {source} |"


def with_rules(page: str) -> str:
    """The page with its table of rules as they are now."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    rows = ["| rule | severity | says | source |", "|---|---|---|---|", *map(row, RULES.values())]
    return f"{head}{BEGIN}\n\n" + "\n".join(rows) + f"\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_rules(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
