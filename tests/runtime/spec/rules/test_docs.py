"""The page of rules says what the rules say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_page_has_every_rule_as_it_is() -> None:
    """Run `python scripts/write_rules.py` after changing a rule."""
    spec = importlib.util.spec_from_file_location("write_rules", ROOT / "scripts" / "write_rules.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")

    assert script.with_rules(page) == page
