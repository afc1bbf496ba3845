"""YAML text as documents with the line of every value, within bounds that no input can break.

Reads what Kubernetes reads (https://github.com/kubernetes-sigs/yaml): YAML 1.1 truth values, text keys, no
dates. Built on PyYAML's events instead of its loader, so that nesting, aliases and size are bounded while
reading, and that duplicate keys are seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from hypertier.errors import ManifestError
from hypertier.spec.tree import Document, Path, Place

MAX_BYTES = 1024 * 1024  # etcd refuses objects above 1.5 MiB; a file of manifests is far smaller
MAX_LINE_CHARACTERS = 64 * 1024
MAX_DEPTH = 64
MAX_NODES = 20_000  # counted with every alias expanded: a bomb ends here

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE_TAG = "tag:yaml.org,2002:merge"


class _Scalars(yaml.constructor.SafeConstructor, yaml.resolver.Resolver):
    """PyYAML's own reading of one scalar, without a stream."""

    def __init__(self) -> None:
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)

    def read(self, event: yaml.ScalarEvent) -> Any:
        """The value of a scalar; what is no null, bool or number is text."""
        tag = event.tag or str(self.resolve(yaml.ScalarNode, event.value, event.implicit))  # type: ignore[no-untyped-call]
        node = yaml.ScalarNode(tag, event.value)
        try:
            match tag.rpartition(":")[2]:
                case "null":
                    return None
                case "bool":
                    return self.construct_yaml_bool(node)
                case "int":
                    number = self.construct_yaml_int(node)
                    return number if number.bit_length() < 64 else event.value
                case "float":
                    return self.construct_yaml_float(node)
        except (ValueError, KeyError, OverflowError):
            pass  # such as `!!int x`; Kubernetes would see the text
        return event.value


@dataclass(slots=True)
class _Open:
    """A mapping or sequence that is being read."""

    value: Any
    where: Path
    anchor: str | None
    nodes_before: int
    key: str | None = None
    merges: list[dict[str, Any]] = field(default_factory=list)

    def next_path(self) -> Path:
        if isinstance(self.value, list):
            return (*self.where, len(self.value))
        return (*self.where, self.key or "")


def read_text(name: str) -> str:
    """The text of a file, or of standard input for `-`.

    Raises:
        ManifestError: the file can't be read, is larger than a manifest can be, or is not UTF-8.
    """
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MAX_BYTES * 4 + 1)
        else:
            with open(name, "rb") as file:
                raw = file.read(MAX_BYTES * 4 + 1)
    except (OSError, ValueError) as error:  # a ValueError for a name with a NUL
        raise ManifestError(name, None, f"cannot be read: {getattr(error, 'strerror', error)}") from error
    if len(raw) > MAX_BYTES * 4:
        raise ManifestError(name, None, f"has more than {MAX_BYTES * 4} bytes; no manifest is so large")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ManifestError(name, line, "is not UTF-8 text") from error


def read_documents(text: str, file: str) -> list[Document]:
    """Every document of `text` that is not empty.

    Raises:
        ManifestError: `text` is no YAML, or larger, longer, deeper or more entangled than a manifest can be.
    """
    check_size(text, file)
    try:
        return list(_Reader(file).read(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ManifestError(file, line, f"is not YAML at column {column}: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ManifestError(file, line, f"holds a character that YAML forbids: {error.reason}") from error
    except yaml.YAMLError as error:
        raise ManifestError(file, None, f"is not YAML: {error}") from error


def check_size(text: str, file: str) -> None:
    """Refuse what is larger than any manifest.

    Raises:
        ManifestError: more than 1 MiB, or a line of more than 64 Ki characters.
    """
    if len(text) > MAX_BYTES:
        raise ManifestError(file, None, f"has {len(text)} characters; expected at most {MAX_BYTES}, 1 MiB")
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > MAX_LINE_CHARACTERS:
            raise ManifestError(
                file, number, f"is a line of {len(line)} characters; expected at most {MAX_LINE_CHARACTERS}"
            )


def _place(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


class _Reader:
    """Builds documents from events, one stack, no recursion."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.scalars = _Scalars()
        self.num_nodes = 0
        self._start(1)

    def read(self, text: str) -> Iterator[Document]:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                self._start(_place(event).line)
            elif isinstance(event, yaml.DocumentEndEvent):
                if self.root is not None:
                    yield Document(
                        self.root, self.places, tuple(self.duplicates), self.written, self.first_line
                    )
            elif isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._open({}, event)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open([], event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close(event)

    def _start(self, line: int) -> None:
        self.root: Any = None
        self.first_line = line
        self.stack: list[_Open] = []
        self.places: dict[Path, Place] = {}
        self.duplicates: list[Path] = []
        self.written: dict[Path, str] = {}
        self.anchors: dict[str, tuple[Any, int] | None] = {}

    def _count(self, num_nodes: int, event: Any) -> None:
        self.num_nodes += num_nodes
        if self.num_nodes > MAX_NODES:
            raise self._error(event, f"holds more than {MAX_NODES} values with its aliases expanded")

    def _error(self, event: Any, problem: str) -> ManifestError:
        return ManifestError(self.file, _place(event).line, problem)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self._key(top, event)
            return
        self._count(1, event)
        value = self.scalars.read(event)
        if not isinstance(value, str) and value is not None and event.value != str(value):
            self.written[top.next_path() if top else ()] = event.value
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        self._put(value, event)

    def _key(self, top: _Open, event: yaml.ScalarEvent) -> None:
        plain = event.implicit[0]
        if plain and event.value == "<<":
            top.key = _MERGE_TAG
            return
        where = (*top.where, event.value)
        if event.value in top.value:
            self.duplicates.append(where)
        top.key = event.value
        self.places[where] = _place(event)

    def _alias(self, event: yaml.AliasEvent) -> None:
        anchored = self.anchors.get(str(event.anchor))
        if anchored is None:
            raise self._error(event, f"uses the alias *{event.anchor}, which names nothing complete")
        value, num_nodes = anchored
        self._count(num_nodes, event)
        self._put(value, event)

    def _open(self, value: Any, event: yaml.CollectionStartEvent) -> None:
        self._count(1, event)
        if len(self.stack) >= MAX_DEPTH:
            raise self._error(event, f"nests deeper than {MAX_DEPTH} levels")
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            raise self._error(event, "has a key that is no text")
        where = top.next_path() if top is not None else ()
        self.places.setdefault(where, _place(event))
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(value, where, event.anchor, self.num_nodes - 1))

    def _close(self, event: yaml.CollectionEndEvent) -> None:
        closed = self.stack.pop()
        for merged in closed.merges:
            for key, value in merged.items():
                closed.value.setdefault(key, value)
        if closed.anchor:
            self.anchors[closed.anchor] = (closed.value, self.num_nodes - closed.nodes_before)
        self._put(closed.value, event)

    def _put(self, value: Any, event: Any) -> None:
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            self.places.setdefault(top.next_path(), _place(event))
            top.value.append(value)
        elif top.key == _MERGE_TAG:
            top.key = None
            merges = value if isinstance(value, list) else [value]
            top.merges.extend(entry for entry in merges if isinstance(entry, dict))
        elif top.key is not None:
            top.value[top.key] = value
            top.key = None
        else:
            raise self._error(event, "has a key that is no text")
