"""What the types alone say about a document: fields unknown, missing, or of the wrong kind.

The API server refuses wrong kinds and missing fields; fields that it does not know it drops without a word.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from hypertier.spec.codec import fields_by_name, is_required, manifest_name, without_none
from hypertier.spec.suggest import nearest
from hypertier.spec.tree import Path

FaultKind = Literal["unknown", "missing", "type", "choice", "pattern", "range", "since", "alpha"]


OF_KUBERNETES = {"env": "environmentVariables"}
"""Names that a pod's fields have in Kubernetes, and those that the same fields have in a manifest."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong at `where`; `expected` says what works.

    For an unknown field `rename` is the sibling that was meant, `move` the place elsewhere in the tree that
    has a field of this name.
    """

    kind: FaultKind
    where: Path
    expected: str = ""
    rename: str | None = None
    move: Path | None = None
    convert: Any = None


def faults(cls: type, data: Any) -> Iterator[Fault]:
    """Every fault of `data` as a `cls`, in the order of the file."""
    yield from _object(cls, data, (), cls)


def _object(cls: type, data: Any, where: Path, root: type) -> Iterator[Fault]:
    if not isinstance(data, Mapping):
        yield Fault("type", where, "a mapping of fields")
        return
    known = typed_fields(cls)
    for key, value in data.items():
        here = (*where, key)
        if key not in known:
            yield _unknown(cls, root, key, value, here)
        elif value is not None:
            yield from _value(*known[key], value, here, root)
    for name in required_names(cls):
        if data.get(name) is None:
            yield Fault("missing", (*where, name))


def _value(hint: Any, about: Mapping[str, Any], value: Any, where: Path, root: type) -> Iterator[Fault]:
    origin = typing.get_origin(hint)
    if "since" in about:
        yield Fault("since", where, about["since"])
    if about.get("alpha") is False:
        yield Fault("alpha", where)
    if dataclasses.is_dataclass(hint):
        inside = _object(typing.cast(type, hint), value, where, root)
        known = not about.get("open_ended")
        yield from (fault for fault in inside if known or fault.kind != "unknown")
    elif origin is tuple:
        if not isinstance(value, list):
            yield Fault("type", where, "a list", convert=_listed(typing.get_args(hint)[0], value))
            return
        if "max_items" in about and len(value) > about["max_items"]:
            yield Fault("range", where, f"at most {about['max_items']} entries")
        item = typing.get_args(hint)[0]
        for index, entry in enumerate(value):
            yield from _value(item, {}, entry, (*where, index), root)
    elif origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            yield Fault("type", where, "a mapping of fields")
    else:
        yield from _scalar(hint, value, where, about)


def _listed(item: Any, value: Any) -> list[Any] | None:
    """The list that was meant: a command line's words, one text, or a mapping's names and values."""
    if isinstance(value, str) and item is str:
        try:
            return shlex.split(value) if " -" in value else [value]
        except ValueError:  # a quote without its other half
            return None
    names = typed_fields(typing.cast(type, item)) if dataclasses.is_dataclass(item) else {}
    if not isinstance(value, Mapping) or not value or not {"name", "value"} <= set(names):
        return None
    texts = {key: each if isinstance(each, str) else converted(str, each) for key, each in value.items()}
    if any(text is None for text in texts.values()):
        return None
    return [{"name": key, "value": text} for key, text in texts.items()]


def _scalar(hint: Any, value: Any, where: Path, about: Mapping[str, Any]) -> Iterator[Fault]:
    expected = {bool: "true or false", int: "a whole number", float: "a number", str: "text, in quotes"}
    if hint in expected and not _is_kind(hint, value):
        yield Fault("type", where, expected[hint], convert=converted(hint, value))
        return
    if "choices" in about and value not in about["choices"]:
        yield Fault(
            "choice", where, " or ".join(about["choices"]), rename=nearest(str(value), about["choices"])
        )
    if "pattern" in about and isinstance(value, str) and re.search(about["pattern"], value) is None:
        yield Fault("pattern", where, about.get("like") or f"text like {about['pattern']}")
    low, high = about.get("minimum"), about.get("maximum")
    if isinstance(value, int | float) and (
        (low is not None and value < low) or (high is not None and value > high)
    ):
        yield Fault("range", where, f"{low} or more" if high is None else f"{low} to {high}")
    length = about.get("max_length")
    if length is not None and isinstance(value, str) and len(value) > length:
        yield Fault("range", where, f"at most {length} characters")


def _is_kind(hint: Any, value: Any) -> bool:
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    return isinstance(value, int | float) if hint is float else isinstance(value, hint)


def converted(hint: Any, value: Any) -> Any:
    """`value` as `hint` where YAML's quoting alone was wrong ("8000" for 8000, 1 for "1"), else None."""
    if hint is str and isinstance(value, bool):
        return "true" if value else "false"
    if hint is str and isinstance(value, int | float):
        return str(value)
    if hint is int and isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if hint is bool and isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
        return value.lower() in ("true", "yes")
    if hint is float and isinstance(value, str) and re.fullmatch(r"-?\d{1,18}(\.\d{1,18})?", value):
        return float(value)
    return None


def _unknown(cls: type, root: type, key: str, value: Any, here: Path) -> Fault:
    names = fields_by_name(cls)
    sibling = OF_KUBERNETES[key] if OF_KUBERNETES.get(key) in names else nearest(key, names)
    if sibling is not None:
        return Fault("unknown", here, ", ".join(fields_by_name(cls)), rename=sibling)
    elsewhere = [place for place in places_of(root, key) if place != here and _fits(root, place, value)]
    elsewhere = [place for place in elsewhere if place[-1] == key] or elsewhere
    move = elsewhere[0] if len(elsewhere) == 1 else None
    return Fault("unknown", here, ", ".join(fields_by_name(cls)), move=move)


def _fits(root: type, place: Path, value: Any) -> bool:
    hint = hint_at(root, place)
    wants_mapping = dataclasses.is_dataclass(hint) or (
        typing.get_origin(hint) is not None and typing.get_origin(hint) is not tuple
    )
    wants_list = typing.get_origin(hint) is tuple
    return isinstance(value, Mapping) == wants_mapping and isinstance(value, list) == wants_list


def hint_at(root: type, place: Path) -> Any:
    """The type of the field at `place` below `root`."""
    hint: Any = root
    for part in place:
        hint = typed_fields(hint)[str(part)][0]
    return hint


@cache
def places_of(root: type, name: str) -> tuple[Path, ...]:
    """Every place below `root`, outside of lists, that has a field of this name or nearly."""
    return tuple(place for place in all_places(root) if nearest(name, [str(place[-1])]) is not None)


@cache
def all_places(root: type) -> tuple[Path, ...]:
    """Every field below `root` outside of lists, shallow ones first."""
    found: list[Path] = []
    level: list[tuple[Path, type]] = [((), root)]
    while level:
        deeper: list[tuple[Path, type]] = []
        for where, cls in level:
            for name, (hint, _) in typed_fields(cls).items():
                found.append((*where, name))
                if dataclasses.is_dataclass(hint):
                    deeper.append(((*where, name), typing.cast(type, hint)))
        level = deeper
    return tuple(found)


@cache
def typed_fields(cls: type) -> dict[str, tuple[Any, Mapping[str, Any]]]:
    """Manifest key -> the field's type without None (or the shape of its subtree) and its metadata."""
    metadata = {manifest_name(field): field.metadata for field in dataclasses.fields(cls)}
    return {
        name: (metadata[name].get("shape") or without_none(hint), metadata[name])
        for name, (_, hint) in fields_by_name(cls).items()
    }


@cache
def required_names(cls: type) -> tuple[str, ...]:
    """Manifest keys that have no default."""
    return tuple(manifest_name(field) for field in dataclasses.fields(cls) if is_required(field))
