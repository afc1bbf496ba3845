"""Keyword arguments that are not there, or missing, told as every other mistake is: by their names."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from hypertier.errors import ConfigError
from hypertier.spec.suggest import nearest

Class = TypeVar("Class", bound=type)


def check_names(
    owner: str, given: Mapping[str, Any], known: Collection[str], required: Collection[str]
) -> None:
    """Refuse an argument of `owner` that it does not have, and the lack of one that it needs.

    Raises:
        ConfigError: names the argument; the nearest known one comes first.
    """
    for name, value in given.items():
        if name not in known:
            meant = nearest(name, known)
            others = ", ".join(entry for entry in known if entry != meant)
            expected = f"{meant}, or another of" if meant else "one of"
            raise ConfigError(name, value, f"{expected} the arguments of {owner}: {others}")
    for name in required:
        if name not in given:
            raise ConfigError(name, None, f"a value: {owner} needs it")


def named_fields(cls: Class) -> Class:
    """Let a dataclass tell a field that it does not have, or that is missing, as a `ConfigError`."""
    fields = [field for field in dataclasses.fields(cls) if field.init]
    known = tuple(field.name for field in fields)
    required = tuple(
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )
    make: Any = cls.__init__  # type: ignore[misc]  # of this very class

    @functools.wraps(make)
    def held(self: Any, *args: Any, **given: Any) -> None:
        if args:
            raise ConfigError(cls.__name__, args, f"its fields by name: {', '.join(known)}")
        check_names(cls.__name__, given, known, required)
        make(self, **given)

    cls.__init__ = held  # type: ignore[misc]
    return cls
