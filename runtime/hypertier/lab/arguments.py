"""Command lines as options with values, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypertier.errors import ConfigError
from hypertier.spec.arguments import as_written, option_name

SHORT_NAMES = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-n": "--nnodes",
    "-q": "--quantization",
}
_NUMBER = re.compile(r"-?[0-9.]+")


@dataclass(frozen=True)
class Option:
    """One option as it was given: a flag has no values, `--name a b` has two."""

    name: str
    values: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The values as one would type them; empty for a flag."""
        return " ".join(self.values)


def parse_engine_options(arguments: Sequence[str]) -> tuple[tuple[str, ...], tuple[Option, ...]]:
    """As `parse_options`, with names in full, as vLLM reads them."""
    return parse_options(arguments, lambda word: SHORT_NAMES.get(word, option_name(word)))


def parse_options(
    arguments: Sequence[str], name_of: Callable[[str], str] = as_written
) -> tuple[tuple[str, ...], tuple[Option, ...]]:
    """Split a command line into what stands before the first option, and the options."""
    positional: list[str] = []
    options: list[Option] = []
    for argument in arguments:
        if is_option(argument):
            name, equals, value = argument.partition("=")
            options.append(Option(name_of(name), (value,) if equals else ()))
        elif options:
            options[-1] = Option(options[-1].name, (*options[-1].values, argument))
        else:
            positional.append(argument)
    return tuple(positional), tuple(options)


def is_option(argument: str) -> bool:
    """Whether an argument begins an option rather than being a value such as -1."""
    return argument.startswith("-") and argument != "-" and not _NUMBER.fullmatch(argument)


def format_options(options: Sequence[Option]) -> Iterator[str]:
    """Yield the arguments of a command line."""
    for option in options:
        yield option.name
        yield from option.values


def edit_json(setting: str, text: str, path: Sequence[str], value: Any) -> tuple[str, str | None]:
    """Set the member at `path` of the JSON object in `text`; None removes it.

    A number in `path` is a place in a list. Nothing is added whose parent is not there.

    Returns:
        The new JSON, and what stood there as text, None where there was nothing or no parent.
    """
    try:
        root = json.loads(text)
    except ValueError as error:
        raise ConfigError(setting, text, "a JSON object") from error
    parent: Any = root
    for key in path[:-1]:
        parent = member(parent, key)
    if not isinstance(parent, dict):
        return text, None
    last = path[-1]
    old = parent.get(last)
    if value is None:
        parent.pop(last, None)
    else:
        parent[last] = value
    return json.dumps(root), None if old is None else str(old)


def member(container: Any, key: str) -> Any:
    """A member of a JSON object or list, None where there is none."""
    if isinstance(container, dict):
        return container.get(key)
    if isinstance(container, list) and key.isdecimal() and int(key) < len(container):
        return container[int(key)]
    return None
