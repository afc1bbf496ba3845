"""The docs name every key of a deployment file, every example and every stack."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any

from fakes_stacks import EXAMPLES, ROOT

from hypertier.spec import codec
from hypertier.spec.deployment import DeploymentFile
from hypertier_cdk.review.templates import Assembly


def named(page: str) -> set[str]:
    """What a page sets as code."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return set(re.findall(r"`([^`]+)`", re.sub(r"(?s)```.*?```", "", text)))


NAMED = named("deploy.md")


def keys(hint: Any, path: str = "") -> Iterator[str]:
    """The dotted path of every key that holds a value of its own."""
    options = [option for option in typing.get_args(hint) if option not in (type(None), Ellipsis)]
    if options:
        yield from keys(options[0], path)
    elif hasattr(hint, "__dataclass_fields__"):
        for name, (_, inner) in codec.fields_by_name(hint).items():
            yield from keys(inner, f"{path}.{name}" if path else name)
    else:
        yield path


def test_every_key_of_a_deployment_file_is_described() -> None:
    described = named("deployment-file.md")

    missing = {
        path
        for path in keys(DeploymentFile)
        if path not in described
        and not (path.rpartition(".")[0] in described and path.rpartition(".")[2] in described)
    }

    assert missing == set()


def test_every_example_is_listed() -> None:
    assert {f"examples/{file.parent.name}" for file in EXAMPLES} <= NAMED


def test_every_stack_is_listed(reference_assembly: Assembly) -> None:
    stacks = {f"NAME-{stack.partition('-')[2]}" for stack in reference_assembly.stacks}

    assert stacks <= NAMED
