"""The README and the pages: every link leads somewhere, and what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypertier.cli.commands import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md"]
PAGES += [*sorted((ROOT / "docs").glob("*.md")), ROOT / "docs" / "llms.txt"]
PROSE = [page for page in PAGES if page.suffix == ".md"] + [ROOT / "CHANGELOG.md"]
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\((?!https?://)([^)#\s]*)#([^)]+)\)")
SOURCE_ROOTS = {"hypertier": "runtime", "hypertier_cdk": "constructs", "hypertier_lambdas": "lambdas"}
SOURCES = "\n".join(
    file.read_text("utf-8")
    for folder in ("runtime", "constructs", "lambdas", "infra", "benchmarks", "scripts")
    for file in sorted((ROOT / folder).rglob("*"))
    if file.suffix in (".py", ".sh")
)
SOURCES += (ROOT / "Makefile").read_text("utf-8")
FLAGS_OF_OTHERS = {
    "--from-file",  # kubectl's
    *("--topic-arn", "--protocol", "--notification-endpoint", "--queue-url"),  # the AWS CLI's
    "--otlp-traces-endpoint",  # vLLM's
    "--require-approval",  # the CDK's
    *("--max-semi-space-size", "--v8-pool-size", "--wasm-tiering-budget", "--no-opt", "--max-lazy"),  # Node's
}
NO_MODULES = {
    "hypertier.dev",
    "hypertier.renderer",
    "hypertier.objects",
}  # an API group, groups of entry points


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def anchor(heading: str) -> str:
    """The name under which GitHub finds a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def stands_in_the_code(name: str) -> bool:
    """Whether it does, as a whole or as what follows the prefix that some metrics share."""
    rest = re.sub(r"^hypertier_router_(route|kvaware|tenant|worker)_", "", name)
    return name in SOURCES or f'"{rest}"' in SOURCES


def is_there(name: str) -> bool:
    """Whether a dotted name of ours is a module, or stands in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT / SOURCE_ROOTS[parts[0]] / "/".join(parts[:length])
        module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if module.exists():
            return not parts[length:] or parts[length] in text_of(module)
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    lost = [link for link in LINK.findall(text_of(page)) if not (page.parent / link).exists()]

    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_anchor_is_a_heading(page: Path) -> None:
    lost = [
        (link, name)
        for link, name in ANCHOR.findall(text_of(page))
        if name
        not in map(anchor, re.findall(r"(?m)^#+ (.*)$", text_of(page.parent / link if link else page)))
    ]

    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_flag_variable_and_metric_that_a_page_names_is_one_of_the_code(page: Path) -> None:
    text = text_of(page)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text)) - FLAGS_OF_OTHERS
    variables = set(re.findall(r"\bHYPERTIER_[A-Z0-9_]+", text))
    counted = re.findall(r"\b(?:hypertier_l2_(\w+?)|(hypertier_router_\w+?))(?:_total)?\b", text)
    metrics = {tier or router for tier, router in counted}

    assert sorted(name for name in flags | variables | metrics if not stands_in_the_code(name)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_and_file_that_a_page_names_is_there(page: Path) -> None:
    text = text_of(page)
    names = set(re.findall(rf"\b(?:{'|'.join(SOURCE_ROOTS)})(?:\.[A-Za-z_0-9]+)+", text)) - NO_MODULES
    files = re.findall(
        r"`((?:scripts|examples|docs|tests|runtime|infra|benchmarks|requirements)/[\w./-]+)`", text
    )
    lost = [name for name in names if not is_there(name)] + [
        file for file in files if not (ROOT / file).exists()
    ]

    assert lost == []


def test_every_target_of_make_that_the_pages_name_is_one() -> None:
    targets = re.findall(r"(?m)^([a-z-]+):", text_of(ROOT / "Makefile"))
    named = {name for page in PAGES for name in re.findall(r"(?:`|\$ )make ([a-z-]+)", text_of(page))}

    assert named - set(targets) == set()


def test_the_readme_leads_to_every_page() -> None:
    links = LINK.findall((ROOT / "README.md").read_text("utf-8"))

    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= set(links)


def test_the_index_for_programs_leads_to_every_page_and_schema() -> None:
    links = LINK.findall(text_of(ROOT / "docs" / "llms.txt"))
    files = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("schemas/*.json")]

    assert {file.relative_to(ROOT / "docs").as_posix() for file in files} <= set(links)


@pytest.mark.parametrize(
    "name", sorted(cli.list_commands(cli.make_context("hypertier", [], resilient_parsing=True)))
)
def test_the_readme_names_every_command(name: str) -> None:
    assert f"hypertier {name}" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_prose_has_at_most_120_columns(page: Path) -> None:
    prose = re.sub(r"(?ms)^ *```.*?^ *```$", lambda code: "\n" * code[0].count("\n"), text_of(page))
    wide = [
        number
        for number, line in enumerate(prose.splitlines(), start=1)
        if len(line) > 120 and " " in line.strip() and not line.lstrip().startswith("|")
    ]

    assert wide == []
