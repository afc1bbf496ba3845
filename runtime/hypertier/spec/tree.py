"""A manifest as plain data with places: paths into it, tolerant reading, and the line of each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Path = tuple[str | int, ...]


def path(dotted: str, *more: str | int) -> Path:
    """`path("spec.worker.args", 3)` is `("spec", "worker", "args", 3)`; keys with dots go into `more`."""
    return (*_split(dotted), *more)


@cache
def _split(dotted: str) -> Path:
    return tuple(dotted.split("."))


def dotted(where: Path) -> str:
    """A path as people read it: `spec.worker.environmentVariables[2].value`."""
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value begins in its file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class View:
    """Plain dicts and lists, read without surprises: what is absent or of another kind is None or empty."""

    data: Any

    def get(self, where: Path | str) -> Any:
        """The value at `where`, or None."""
        value = self.data
        for part in _split(where) if isinstance(where, str) else where:
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
                value = value[part]
            else:
                return None
        return value

    def has(self, where: Path | str) -> bool:
        """Whether something other than null stands at `where`."""
        return self.get(where) is not None

    def text(self, where: Path | str) -> str | None:
        """The text at `where`, or None."""
        value = self.get(where)
        return value if isinstance(value, str) else None

    def whole(self, where: Path | str) -> int | None:
        """The whole number at `where`, or None."""
        value = self.get(where)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, where: Path | str) -> bool | None:
        """The true or false at `where`, or None."""
        value = self.get(where)
        return value if isinstance(value, bool) else None

    def mapping(self, where: Path | str) -> Mapping[str, Any]:
        """The mapping at `where`, or an empty one."""
        value = self.get(where)
        return value if isinstance(value, dict) else {}

    def items(self, where: Path | str) -> list[Any]:
        """The list at `where`, or an empty one."""
        value = self.get(where)
        return value if isinstance(value, list) else []

    def mappings(self, where: Path | str) -> list[tuple[int, Mapping[str, Any]]]:
        """The mappings in the list at `where`, each with its index."""
        return [(index, entry) for index, entry in enumerate(self.items(where)) if isinstance(entry, dict)]

    def repeated(self, where: Path, key: str) -> list[Path]:
        """The places in the list at `where` whose `key` has the text of an earlier entry's."""
        texts = [
            (index, entry[key]) for index, entry in self.mappings(where) if isinstance(entry.get(key), str)
        ]
        firsts = {text: index for index, text in reversed(texts)}
        return [(*where, index, key) for index, text in texts if index != firsts[text]]

    def texts(self, where: Path | str) -> list[str]:
        """The list at `where` as text, entry by entry; numbers as they would be written."""
        return [entry if isinstance(entry, str) else str(entry) for entry in self.items(where)]


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its plain data, and where each of its values stands.

    `written` has numbers and truths whose text is not their own (`3.10`, `yes`, `0o17`). `inside` is where it
    stands in the file's document, for an object of a `kind: List`; all other paths begin below that.
    """

    data: Any
    places: Mapping[Path, Place] = field(default_factory=dict)
    duplicates: Sequence[Path] = ()
    written: Mapping[Path, str] = field(default_factory=dict)
    first_line: int = 1
    inside: Path = ()

    @property
    def view(self) -> View:
        """The data for reading."""
        return View(self.data)

    def place(self, where: Path) -> Place:
        """Where `where` stands, or the nearest thing above it that is written down."""
        for length in range(len(where), -1, -1):
            found = self.places.get(where[:length])
            if found is not None:
                return found
        return Place(self.first_line, 1)


def objects(document: Document) -> list[Document]:
    """What `kubectl get -o yaml` folded into a `kind: List`, each a document; else `document` alone."""
    data = document.data
    if not isinstance(data, dict) or data.get("kind") != "List" or not isinstance(data.get("items"), list):
        return [document]
    return [_below(document, ("items", index), entry) for index, entry in enumerate(data["items"])]


def _below(document: Document, where: Path, data: Any) -> Document:
    depth = len(where)

    def moved(paths: Mapping[Path, Any]) -> dict[Path, Any]:
        return {path[depth:]: value for path, value in paths.items() if path[:depth] == where}

    places = moved(document.places)
    return Document(
        data,
        places,
        [path[depth:] for path in document.duplicates if path[:depth] == where],
        moved(document.written),
        places[()].line if () in places else document.first_line,
        (*document.inside, *where),
    )


def leaves(data: Any, where: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every scalar below `data` with its path, in the order of the file."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, (*where, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from leaves(value, (*where, index))
    else:
        yield where, data
