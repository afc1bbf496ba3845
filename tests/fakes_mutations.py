"""One mistake at a time in a file: each key of it left out, empty, misspelled, or of another kind or size."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Mutation:
    """What was done, and the place that it was done at."""

    what: str
    place: Place
    document: Any

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.place))} {self.what}"


def mutations(document: Any) -> Iterator[Mutation]:
    """Every key and entry of `document`, with every mistake that it can take."""
    for place in list(_places(document)):
        value = _get(document, place)
        for what, other in _instead_of(value):
            yield _with(document, place, what, other)
        yield _without(document, place)
        if isinstance(place[-1], str):
            yield _renamed(document, place, f"{place[-1]}x", "misspelled")
        if isinstance(value, dict):
            yield _with(document, place, "with an unknown key", {**value, "zzz": 1})


def _instead_of(value: Any) -> Iterator[tuple[str, Any]]:
    yield "null", None
    yield "a list of lists", [[]]
    if not isinstance(value, dict):
        yield "a mapping", {"zzz": 1}
    if not isinstance(value, bool):
        yield "a truth value", True
    if isinstance(value, int) and not isinstance(value, bool):
        yield "negative", -1
        yield "huge", 10**30
        yield "not finite", float("nan")
        yield "a text", "many"
    else:
        yield "a number", -1.5
    if isinstance(value, str):
        yield "empty", ""
        yield "odd", "²\u0000 ${x}"
        yield "long", "9" * 3000
    if isinstance(value, list):
        yield "empty", []


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, entry in entries:
        yield (*at, key)
        yield from _places(entry, (*at, key))


def _get(document: Any, place: Place) -> Any:
    for part in place:
        document = document[part]
    return document


def _with(document: Any, place: Place, what: str, value: Any) -> Mutation:
    changed = copy.deepcopy(document)
    _get(changed, place[:-1])[place[-1]] = value
    return Mutation(what, place, changed)


def _without(document: Any, place: Place) -> Mutation:
    changed = copy.deepcopy(document)
    del _get(changed, place[:-1])[place[-1]]
    return Mutation("left out", place, changed)


def _renamed(document: Any, place: Place, name: str, what: str) -> Mutation:
    changed = copy.deepcopy(document)
    parent = _get(changed, place[:-1])
    parent[name] = parent.pop(place[-1])
    return Mutation(what, (*place[:-1], name), changed)
