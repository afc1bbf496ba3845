"""Between camelCase manifests and frozen dataclasses, without losing anything.

A field that is None was not written. Keys that a dataclass does not know are kept in its `unknown` mapping,
so that reading and writing again gives the same manifest, and `hypertier lint` reports them; where a
dataclass has no such mapping, they are problems.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from hypertier.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """A value of the wrong kind: where it is (`spec.worker.image`), what it was, what works."""

    path: str
    got: Any
    expected: str


def manifest_name(field: dataclasses.Field[Any]) -> str:
    """`enable_l1_cache` is `enableL1Cache`; names that don't follow the rule carry `manifest` metadata."""
    explicit = field.metadata.get("manifest")
    if explicit is not None:
        return str(explicit)
    head, *tail = field.name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


@cache
def fields_by_name(cls: type) -> dict[str, tuple[str, Any]]:
    """Manifest key -> (attribute, type) of every field of `cls` that stands in the manifest."""
    hints = typing.get_type_hints(cls)
    return {
        manifest_name(field): (field.name, hints[field.name])
        for field in dataclasses.fields(cls)
        if field.name != "unknown" and field.init and not field.metadata.get("internal")
    }


def decode(cls: type[T], value: Any, path: str, problems: list[Problem]) -> T | None:
    """Read `value` as `cls`; every wrong kind, missing field and key without a place goes to `problems`.

    Returns:
        None where there was any: defaults in place of what was written would make other values look wrong.
    """
    before = len(problems)
    if not isinstance(value, Mapping):
        problems.append(Problem(path, value, "a mapping of fields"))
        return None
    known = fields_by_name(typing.cast(type, cls))
    arguments: dict[str, Any] = {}
    for key, (attribute, hint) in known.items():
        if value.get(key) is not None:
            where = f"{path}.{key}" if path else key
            arguments[attribute] = _decode_value(hint, value[key], where, problems)
    missing = [
        manifest_name(field)
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]  # every T here is a dataclass
        if is_required(field) and field.name not in arguments
    ]
    for name in missing:
        where = f"{path}.{name}" if path else name
        if not any(problem.path.startswith(where) for problem in problems):
            problems.append(Problem(where, None, "a value: the field is required"))
    unknown = {key: entry for key, entry in value.items() if key not in known}
    if unknown and any(field.name == "unknown" for field in dataclasses.fields(cls)):  # type: ignore[arg-type]
        arguments["unknown"] = unknown
    elif unknown:
        expected = f"one of the keys {', '.join(known)}"
        problems.extend(
            Problem(f"{path}.{key}" if path else str(key), entry, expected) for key, entry in unknown.items()
        )
    return cls(**arguments) if len(problems) == before else None


def decode_or_raise(cls: type[T], value: Any, path: str = "") -> T:
    """Read `value` as `cls`.

    Raises:
        ConfigError: for the first value of a wrong kind, naming its path.
    """
    problems: list[Problem] = []
    decoded = decode(cls, value, path, problems)
    if problems or decoded is None:
        first = problems[0]
        raise ConfigError(first.path or "the manifest", first.got, first.expected)
    return decoded


def encode(value: Any) -> Any:
    """The plain mapping that `value` was read from: required keys first, then in the order of the fields."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        known = {
            manifest_name(field): encode(getattr(value, field.name))
            for field in sorted(dataclasses.fields(value), key=lambda field: not is_required(field))
            if field.name != "unknown"
            and not field.metadata.get("internal")
            and getattr(value, field.name) is not None
        }
        return known | plain(getattr(value, "unknown", {}))
    return plain(value)


def plain(value: Any) -> Any:
    """Tuples and mappings as the lists and dicts that YAML and JSON have."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return encode(value)
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(entry) for entry in value]
    return value


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether the field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _decode_value(hint: Any, value: Any, path: str, problems: list[Problem]) -> Any:
    hint = without_none(hint)
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return decode(typing.cast(type, hint), value, path, problems)
    if origin is tuple:
        if not isinstance(value, Sequence) or isinstance(value, str):
            problems.append(Problem(path, value, "a list"))
            return None
        item = typing.get_args(hint)[0]
        items = [
            _decode_value(item, entry, f"{path}[{index}]", problems) for index, entry in enumerate(value)
        ]
        return tuple(entry for entry in items if entry is not None)
    if origin is not None and issubclass(origin, Mapping):
        return _expect(value, Mapping, "a mapping of fields", path, problems)
    if hint is bool:
        return _expect(value, bool, "true or false", path, problems)
    if hint is int:
        return _expect(value, int, "a whole number", path, problems)
    if hint is float:
        number = _expect(value, (int, float), "a number", path, problems)
        return None if number is None else float(number)
    if hint is str:
        return _expect(
            value, str, "text (in quotes where YAML would read a number or true/false)", path, problems
        )
    return value


def without_none(hint: Any) -> Any:
    """`X | None` as `X`; other unions as Any."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [option for option in typing.get_args(hint) if option is not type(None)]
        return rest[0] if len(rest) == 1 else Any
    return hint


def _expect(value: Any, kind: Any, expected: str, path: str, problems: list[Problem]) -> Any:
    is_bool_as_number = isinstance(value, bool) and kind is not bool
    if isinstance(value, kind) and not is_bool_as_number:
        return value
    problems.append(Problem(path, value, expected))
    return None
