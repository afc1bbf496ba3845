"""What the pages show can be typed as it stands: settings, commands and files, each by what reads them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from hypertier.catalog.prices import load_prices
from hypertier.cli.commands import cli
from hypertier.router.routes.routes import parse
from hypertier.spec import codec
from hypertier.spec.access import load_access
from hypertier.spec.deployment import DeploymentFile
from hypertier.spec.endpoint.capture import DataCapture
from hypertier.spec.lint import lint_files

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SECTIONS = set(codec.fields_by_name(DeploymentFile))
COMMAND = re.compile(r"(?:^|[\s/])hypertier ((?:[a-z]+)(?: .*)?)$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and where it begins."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text("utf-8")
        for found in re.finditer(r"(?ms)^```(\w*)\n(.*?)^```", text):
            yield Block(page.name, text.count("\n", 0, found.start()) + 1, found[1], found[2])


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line of ours, without prompts, comments, pipes and redirections."""
    for block in blocks():
        if block.language not in ("", "sh", "console"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|", re.sub(r"(^|\s)#.*", "", line.removeprefix("$ "))):
                found = COMMAND.search(re.sub(r"\s*>+\s*\S+", "", part.strip()))
                if found and found[1].split()[0] in cli.list_commands(click.Context(cli)):
                    yield f"{block.page}: {part.strip()}", shlex.split(found[1])


BLOCKS = list(blocks())
COMMANDS = dict(commands())
FILES = [block for block in BLOCKS if block.language == "yaml"]
OTHERS = {
    "lint.md": "pre-commit's",
    "deployment-file.md": "Karpenter's, or an editor's",
}  # what other programs read


def parsed(command: click.Command, name: str, words: list[str], parent: click.Context | None = None) -> None:
    """Have click read words as it does before it runs a command."""
    with command.make_context(name, list(words), parent=parent) as context:
        left = [*context._protected_args, *context.args] if isinstance(command, click.Group) else []
        if isinstance(command, click.Group) and left:
            found, inner, rest = command.resolve_command(context, left)
            assert found is not None
            assert inner is not None
            parsed(inner, found, rest, context)


def merged(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    for key, value in part.items():
        own = whole.get(key)
        whole[key] = merged(dict(own), value) if isinstance(own, dict) and isinstance(value, dict) else value
    return whole


def faults(data: dict[str, Any], example: str, folder: Path) -> list[str]:
    """What lint says of a deployment file, or of sections of one in the place of an example's."""
    for file in (EXAMPLES / example).glob("*.yaml"):
        (folder / file.name).write_bytes(file.read_bytes())
    file = folder / "deployment.yaml"
    own = {} if "endpoints" in data else yaml.safe_load(file.read_text("utf-8"))
    file.write_text(yaml.safe_dump(merged(own, data)), encoding="utf-8")
    return [finding.message for finding in lint_files([str(file)]).findings]


def test_blocks_and_commands_are_found() -> None:
    assert len(FILES) > 10
    assert len(COMMANDS) > 25


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_a_page_is_read(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = COMMANDS[line]
    for word in words:
        if re.fullmatch(r"[\w/-]+\.(txt|json|jsonl|yaml)", word):
            (tmp_path / word).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / word).write_text("{}", encoding="utf-8")

    parsed(cli, "hypertier", words)


@pytest.mark.parametrize("block", FILES, ids=str)
def test_a_file_of_a_page_is_read_by_what_it_is_for(block: Block, tmp_path: Path) -> None:
    documents = [document for document in yaml.safe_load_all(block.text) if document is not None]
    if len(documents) != 1:
        assert block.page in OTHERS
        return
    (data,) = documents
    file = tmp_path / "deployment.yaml"
    file.write_text(block.text, encoding="utf-8")

    if block.page == "access.md" and "secretName" not in data["access"]:
        load_access(file, "--access")
    elif set(data) <= SECTIONS:
        assert [] in [faults(data, example, tmp_path) for example in ("reference", "disaggregated")]
    elif set(data) == {"dataCapture"}:
        assert codec.decode_or_raise(DataCapture, data["dataCapture"]).model_pod is not None
    elif "models" in data:
        parse(block.text.encode(), has_kvaware=False)
    elif block.page == "review.md":
        load_prices(file, "us-west-2")
    else:
        assert block.page in OTHERS


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "json"], ids=str)
def test_json_of_a_page_is_json(block: Block) -> None:
    json.loads(block.text if block.text.startswith("{") else f"{{{block.text}}}")
