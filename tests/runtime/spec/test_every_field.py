"""Every option of a deployment file has an effect: something reads it, beside the check of its value."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig

ROOT = Path(__file__).parents[3]


def sections(cls: type[Any]) -> Iterator[type[Any]]:
    """The dataclasses of a deployment file, from the top; manifests of endpoints are AWS's and not these."""
    yield cls
    for hint in get_type_hints(cls).values():
        for each in (hint, *get_args(hint)):
            if dataclasses.is_dataclass(each) and each is not InferenceEndpointConfig:
                yield from sections(each)  # type: ignore[arg-type]


FIELDS = sorted(
    {(cls.__name__, field.name) for cls in sections(Deployment) for field in dataclasses.fields(cls)}
)


@cache
def read_names() -> frozenset[str]:
    """Every attribute that code reads elsewhere than where a value is checked as it is made.

    A name that stands in a text counts, too: some fields are read by their names.
    """
    names: set[str] = set()
    for folder in ("runtime/hypertier", "constructs/hypertier_cdk", "infra"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.iter_child_nodes(ast.parse(file.read_text(encoding="utf-8"))):
                names |= set(_names(node))
    return frozenset(names)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef) and node.name == "__post_init__":
        return
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


@pytest.mark.parametrize(("section", "name"), FIELDS, ids=[f"{cls}.{name}" for cls, name in FIELDS])
def test_a_field_is_read_where_it_has_an_effect(section: str, name: str) -> None:
    assert name in read_names()


def test_sections_within_sections_are_found() -> None:
    assert ("ToZero", "idle") in FIELDS
    assert ("ScalingSchedule", "min_replicas") in FIELDS
