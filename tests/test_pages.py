"""The README and the pages: every link leads somewhere, every page and command is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypertier.cli.main import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    lost = [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]

    assert lost == []


def test_the_readme_leads_to_every_page() -> None:
    links = LINK.findall((ROOT / "README.md").read_text("utf-8"))

    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= set(links)


@pytest.mark.parametrize(
    "name", sorted(cli.list_commands(cli.make_context("hypertier", [], resilient_parsing=True)))
)
def test_the_readme_names_every_command(name: str) -> None:
    assert f"hypertier {name}" in (ROOT / "README.md").read_text("utf-8")
