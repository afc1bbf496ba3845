"""Indentation rebuilt from types: which field of the manifest each line must be, given those before it."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypertier.spec.rules.subject import TYPES
from hypertier.spec.structure import typed_fields
from hypertier.spec.suggest import nearest

# Fields of Kubernetes' own objects that stand inside manifests: name -> what it holds.
_PROBE: dict[str, Any] = {
    "httpGet": {"path": str, "port": int, "scheme": str, "host": str},
    "exec": {"command": list},
    "tcpSocket": {"port": int},
    "initialDelaySeconds": int,
    "periodSeconds": int,
    "timeoutSeconds": int,
    "failureThreshold": int,
    "successThreshold": int,
}
_REFERENCE: dict[str, Any] = {"name": str, "key": str, "optional": bool}
_FOREIGN: dict[str, dict[str, Any]] = {
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "valueFrom": {
        "secretKeyRef": _REFERENCE,
        "configMapKeyRef": _REFERENCE,
        "fieldRef": {"fieldPath": str, "apiVersion": str},
    },
    "volumes": {
        "name": str,
        "persistentVolumeClaim": {"claimName": str, "readOnly": bool},
        "emptyDir": {"medium": str, "sizeLimit": str},
        "hostPath": {"path": str, "type": str},
        "configMap": {"name": str},
        "secret": {"secretName": str},
    },
    "tolerations": {"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int},
}
# What quantities are asked for; under `limits` and `requests` any other name belongs to a field above.
_QUANTITY = re.compile(r"cpu|memory|ephemeral-storage|hugepages-\w+|[\w.-]+/[\w.-]+")
_LINE = re.compile(r"^(?P<dash>(?:-\s+)*)(?P<key>[A-Za-z][\w./-]*|\"[^\"]+\"|'[^']+')\s*:(?P<rest>\s.*|)$")
_BLOCK_SCALAR = re.compile(r"\s[|>][+-]?\d?\s*(#.*)?$")


@dataclass(slots=True)
class _Open:
    """A mapping that lines are put into, or (`is_list`) a list that entries are put into."""

    fields: Mapping[str, Any] | None
    depth: int
    name: str
    is_list: bool = False
    used: set[str] = field(default_factory=set)


def reindented(lines: list[str], root: type) -> list[str] | None:
    """The lines of one document, indented by the types below `root`; None where a line has no place."""
    stack = [_Open(_fields_of(root), 0, "")]
    result = []
    scalar_depth: int | None = None
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            result.append(line)
            continue
        match = _LINE.match(text)
        if scalar_depth is not None:
            if match is None or _place(stack, _plain(match["key"]), bool(match["dash"])) is None:
                result.append("  " * scalar_depth + text)
                continue
            scalar_depth = None
        if match is None and _continues(result):
            result.append("  " * (stack[-1].depth + 1) + text)
            continue
        if match is None:
            depth = _depth_of_entry(stack, text)
            if depth is None:
                return None
            result.append("  " * depth + text)
            continue
        key, dash = _plain(match["key"]), bool(match["dash"])
        found = _place(stack, key, dash) or _place_nearby(stack, key, dash)
        if found is None:
            return None
        level, starts_item = found
        del stack[level + 1 :]
        target = stack[level]
        if starts_item:
            stack.append(_Open(target.fields, target.depth + 1, target.name))
            result.append("  " * target.depth + f"- {match['key']}:{match['rest']}")
            target = stack[-1]
        else:
            result.append("  " * target.depth + f"{match['key']}:{match['rest']}")
        target.used.add(key)
        if _BLOCK_SCALAR.search(match["rest"]):
            scalar_depth = target.depth + 1
        elif not match["rest"].strip() or match["rest"].strip().startswith("#"):
            opened = _opened(target, key)
            if opened is not None:
                stack.append(opened)
    return result


def _place(stack: list[_Open], key: str, dash: bool) -> tuple[int, bool] | None:
    """The innermost open container that takes `key`, and whether it starts an entry of a list there."""
    for level in range(len(stack) - 1, -1, -1):
        target = stack[level]
        if target.is_list:
            if dash and (target.fields is None or key in target.fields):
                return level, True
            continue
        if dash:
            continue
        if target.fields is None:
            if target.name in ("limits", "requests") and not _QUANTITY.fullmatch(key):
                continue
            if level < len(stack) - 1 or key in target.used or _is_field_above(stack[:level], key):
                continue
            return level, False
        if key in target.fields and key not in target.used:
            return level, False
    return None


def _place_nearby(stack: list[_Open], key: str, dash: bool) -> tuple[int, bool] | None:
    """Where a key that no open container knows goes: beside the field it was meant to be, else innermost."""
    if dash:
        return next(((level, True) for level in range(len(stack) - 1, -1, -1) if stack[level].is_list), None)
    mappings = [level for level in range(len(stack) - 1, -1, -1) if not stack[level].is_list]
    for level in mappings:
        free = set(stack[level].fields or ()) - stack[level].used
        if nearest(key, free) is not None:
            return level, False
    return (mappings[0], False) if mappings else None


def _is_field_above(stack: list[_Open], key: str) -> bool:
    """Whether a container further out has a free field of this name; a map of any names leaves it."""
    return any(
        outer.fields is not None and not outer.is_list and key in outer.fields and key not in outer.used
        for outer in stack
    )


def _continues(before: list[str]) -> bool:
    """Whether the line above leaves a flow list or mapping open, of which the next line is the rest."""
    line = next((line for line in reversed(before) if line.strip()), "").rstrip()
    return line.endswith((",", "[", "{"))


def _depth_of_entry(stack: list[_Open], text: str) -> int | None:
    """Where an entry without a key goes: to the innermost list; None for what is no entry or has no list."""
    for level in range(len(stack) - 1, -1, -1):
        if stack[level].is_list and text.startswith("-"):
            del stack[level + 1 :]
            return stack[level].depth
    return None


def _opened(parent: _Open, key: str) -> _Open | None:
    """What a key without a value opens, by its type; None for one that holds nothing."""
    kind = None if parent.fields is None else parent.fields.get(key)
    depth = parent.depth + 1
    if key in _FOREIGN:
        is_list = key in ("volumes", "tolerations")
        return _Open(_FOREIGN[key], depth, key, is_list=is_list)
    if isinstance(kind, dict):
        return _Open(kind, depth, key)
    if kind is list or typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0] if typing.get_args(kind) else str
        fields = _fields_of(item) if dataclasses.is_dataclass(item) else None
        return _Open(fields, depth, key, is_list=True)
    if dataclasses.is_dataclass(kind):
        return _Open(_fields_of(typing.cast(type, kind)), depth, key)
    if kind in (str, int, bool, float):
        return None
    return _Open(None, depth, key)


def _fields_of(cls: Any) -> Mapping[str, Any]:
    return {name: hint for name, (hint, _) in typed_fields(cls).items()}


def _plain(key: str) -> str:
    return key.strip("\"'")


@cache
def known_names() -> frozenset[str]:
    """Every field name of every kind, and Kubernetes' own inside them."""
    names = {"cpu", "memory"}

    def walk(kind: Any) -> None:
        if isinstance(kind, dict):
            for name, inner in kind.items():
                names.add(name)
                walk(inner)
        elif dataclasses.is_dataclass(kind):
            walk(dict(_fields_of(kind)))
        elif typing.get_origin(kind) is tuple:
            walk(typing.get_args(kind)[0])

    for root in TYPES.values():
        walk(root)
    for foreign in _FOREIGN.values():
        walk(foreign)
    return frozenset(names)


def top_level_names(kind: str | None) -> frozenset[str] | None:
    """Field names at the top of a document of `kind`, or None for a kind of somebody else."""
    cls = TYPES.get(kind or "")
    return None if cls is None else frozenset(typed_fields(cls))
