"""Edits of YAML text in place, by the marks of its parser: every byte that no edit is about stays as it is.

What needs more than a change of text at one place, such as another list, is not implemented here.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from hypertier.spec.rules.rule import Edit
from hypertier.spec.tree import Path

YAML_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")  # that are no text in YAML 1.1
MAX_PASSES = 6  # an edit may wait for what another one makes
_PLAIN = re.compile(r"(--)?[A-Za-z/]([\w./:@-]*[\w/-])?|[0-9]{1,18}[KMGTP]i?")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class _Change:
    """`text` comes in place of what stands from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(slots=True)
class _Pass:
    """One reading of the text, and the changes of it so far."""

    text: str
    is_json: bool
    changes: list[_Change] = field(default_factory=list)
    made: set[Path] = field(default_factory=set)

    def add(self, *changes: _Change) -> bool:
        """Whether the changes meet none that is there already; then they are made with them."""
        for new in changes:
            if any(new.start < old.end and old.start < new.end for old in self.changes):
                return False
            if new.start == new.end and any(old.start < new.start < old.end for old in self.changes):
                return False
        self.changes += changes
        return True

    def result(self) -> str:
        """The text with every change made."""
        parts, at = [], 0
        for change in sorted(self.changes, key=lambda change: (change.start, change.end)):
            parts += [self.text[at : change.start], change.text]
            at = change.end
        return "".join(parts) + self.text[at:]


def patched(text: str, edits: Mapping[int, Sequence[Edit]]) -> str | None:
    """`text` with the edits of each document made, renames first; None where that takes a new text.

    An edit without a place, or whose place is taken, is left out.
    """
    is_json = text.lstrip().startswith("{") and _is_json(text)
    for action in ("rename", "move", "remove", "set"):
        pending = [(d, edit) for d, some in edits.items() for edit in some if edit.action == action]
        for _ in range(MAX_PASSES):
            if not pending:
                break
            try:
                text, pending = _one_pass(text, pending, is_json)
            except (NotImplementedError, yaml.YAMLError):
                return None
        if pending:
            return None
    return text


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _one_pass(
    text: str, edits: Sequence[tuple[int, Edit]], is_json: bool
) -> tuple[str, list[tuple[int, Edit]]]:
    """The text with as many edits made as one reading allows, and those that are left."""
    nodes = [node for node in yaml.compose_all(text, Loader=_LOADER) if not _is_null(node)]
    run, gone, left = _Pass(text, is_json), list[tuple[int, Path]](), list[tuple[int, Edit]]()
    for number, edit in edits:
        where = edit.where
        if number >= len(nodes) or any(number == d and where[: len(p)] == p for d, p in gone):
            continue
        if not _make(run, nodes[number], edit, number):
            left.append((number, edit))
        elif edit.action != "set":
            gone.append((number, where))
    return run.result(), left


def _make(run: _Pass, root: Node, edit: Edit, number: int) -> bool:
    """Make one edit, or leave it out where it has no place; False where it must wait for the next reading."""
    if edit.action == "set":
        return _set(run, root, edit.where, edit.value, number)
    holder, rest = _deepest(root, edit.where[:-1])
    entry = _entry(holder, edit.where[-1]) if not rest and isinstance(holder, MappingNode) else None
    if entry is None or not isinstance(holder, MappingNode):
        return True
    if edit.action == "rename":
        if _entry(holder, edit.value) is not None:
            return True
        return run.add(_replaced(entry[0], str(edit.value), run.is_json))
    if edit.action == "remove":
        return run.add(_without(run.text, root, holder, entry))
    target, rest = _deepest(root, edit.value[:-1])
    if not rest and (not isinstance(target, MappingNode) or _entry(target, edit.value[-1]) is not None):
        return True
    at, name = (number, *edit.value[: -len(rest) - 1]), str(edit.value[-1])
    if isinstance(target, MappingNode) and target.flow_style:
        value = entry[1]
        if isinstance(value, MappingNode | SequenceNode) and not value.flow_style:
            raise NotImplementedError
        written = run.text[value.start_mark.index : value.end_mark.index]
        inserted = _new_in_flow(run, target, [*map(str, rest), name], written, at)
    else:
        lines = _entry_lines(run.text, entry, name)
        inserted = _inserted(run, target, [*map(str, rest)], lines, at, root)
    return inserted is not None and run.add(_without(run.text, root, holder, entry), inserted)


def _set(run: _Pass, root: Node, where: Path, value: Any, number: int) -> bool:
    found, rest = _deepest(root, where)
    if not rest:
        if isinstance(found, SequenceNode) and isinstance(value, list):
            before = _data(found)
            if value[: len(before)] == before:
                return run.add(*(_appended(run, found, entry) for entry in value[len(before) :]))
        if isinstance(found, ScalarNode) and isinstance(value, list) and all(map(_is_scalar, value)):
            if found.style in ("|", ">") or found.start_mark.index == found.end_mark.index:
                raise NotImplementedError
            written = _flow(value, run.is_json)
            return run.add(_Change(found.start_mark.index, found.end_mark.index, written))
        if isinstance(found, ScalarNode) and found.style not in ("|", ">") and _is_scalar(value):
            if found.start_mark.index == found.end_mark.index:
                if (key_node := _key_of(root, found)) is None:
                    raise NotImplementedError
                colon = run.text.index(":", key_node.end_mark.index) + 1
                return run.add(_Change(colon, colon, " " + _scalar(value)))
            return run.add(_replaced(found, value, run.is_json))
        raise NotImplementedError
    if isinstance(found, SequenceNode) or not all(isinstance(part, str) for part in rest):
        return True
    if isinstance(found, ScalarNode) and not _is_null(found):
        return True
    *parents, key = map(str, rest)
    at = (number, *where[: len(where) - len(rest)])
    if isinstance(found, MappingNode) and found.flow_style:
        change = _new_in_flow(run, found, [*parents, key], _flow(value, run.is_json), at)
        return change is not None and run.add(change)
    lines = _block_entry(key, value)
    change = _inserted(run, found, parents, lines, at, root)
    return change is not None and run.add(change)


def _new_in_flow(run: _Pass, target: MappingNode, keys: list[str], written: str, at: Path) -> _Change | None:
    """A value below `keys` as a flow mapping's last entry; None to wait."""
    head = (*at, keys[0])
    if head in run.made:
        return None
    run.made.add(head)
    for key in reversed(keys[1:]):
        written = f"{{{_scalar(key, run.is_json)}: {written}}}"
    return _into_flow(run, target, f"{_scalar(keys[0], run.is_json)}: {written}")


def _inserted(
    run: _Pass, target: Node, parents: list[str], lines: list[str], at: Path, root: Node
) -> _Change | None:
    """`lines` below `parents`, which are made, behind the last entry of a block mapping; None to wait."""
    head = (*at, parents[0] if parents else lines[0].partition(":")[0])
    if head in run.made:
        return None
    run.made.add(head)
    for parent in reversed(parents):
        lines = [f"{_scalar(parent)}:", *(f"  {line}" if line else line for line in lines)]
    if isinstance(target, MappingNode) and not target.flow_style and target.value:
        column = target.value[0][0].start_mark.column
        position = _line_end(run.text, _end(run.text, target))
    elif _is_null(target) and target.start_mark.index == target.end_mark.index:
        key = _key_of(root, target)
        if key is None:
            raise NotImplementedError
        column = key.start_mark.column + 2
        position = _line_end(run.text, key.end_mark.index)
    else:
        raise NotImplementedError
    text = "".join(f"\n{' ' * column}{line}" if line else "\n" for line in lines)
    return _Change(position, position, text)


def _appended(run: _Pass, sequence: SequenceNode, value: Any) -> _Change:
    """One entry more, in the style of the last one."""
    if sequence.flow_style:
        return _into_flow(run, sequence, _flow(value, run.is_json))
    column, last = sequence.start_mark.column, sequence.value[-1]
    if run.text[sequence.start_mark.index] != "-":
        raise NotImplementedError
    in_flow = isinstance(last, MappingNode) and last.flow_style
    lines = [_flow(value)] if in_flow or _is_scalar(value) else _block(value)
    head, *others = lines
    text = f"\n{' ' * column}- {head}" + "".join(f"\n{' ' * column}  {line}" for line in others)
    position = _line_end(run.text, _end(run.text, sequence))
    return _Change(position, position, text)


def _into_flow(run: _Pass, collection: Any, entry: str) -> _Change:
    """One entry more before the closing bracket; on a line of its own where the last one has one."""
    if not collection.value:
        position = collection.end_mark.index - 1
        return _Change(position, position, entry)
    last = collection.value[-1]
    start = (last[0] if isinstance(last, tuple) else last).start_mark.index
    line = run.text[run.text.rfind("\n", 0, start) + 1 : start]
    position = _entry_end(run.text, last)
    return _Change(position, position, f",\n{line}{entry}" if line.isspace() else f", {entry}")


def _without(text: str, root: Node, holder: MappingNode, entry: tuple[Node, Node]) -> _Change:
    """The mapping without one of its entries, whose comments on the same lines go with it."""
    index = next(i for i, other in enumerate(holder.value) if other is entry)
    start, end = entry[0].start_mark.index, _entry_end(text, entry)
    following = holder.value[index + 1][0].start_mark.index if index + 1 < len(holder.value) else None
    if holder.flow_style:
        if following is not None:
            return _Change(start, following, "")
        before = holder.value[index - 1] if index else None
        return _Change(start if before is None else _entry_end(text, before), end, "")
    if len(holder.value) == 1:
        key = _key_of(root, holder)
        start = holder.start_mark.index if key is None else text.index(":", key.end_mark.index) + 1
        return _Change(start, end, "{}" if key is None else " {}")
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].strip():  # behind the dash of a sequence
        if following is None:
            raise NotImplementedError
        return _Change(start, following, "")
    return _Change(line, min(_line_end(text, end) + 1, len(text)), "")


def _entry_lines(text: str, entry: tuple[Node, Node], name: str) -> list[str]:
    """An entry of a block mapping under another name, as lines from column 0 on."""
    key, column = entry[0], entry[0].start_mark.column
    first, *others = text[key.end_mark.index : _line_end(text, _entry_end(text, entry))].split("\n")
    if any(line.strip() and line[:column].strip() for line in others):
        raise NotImplementedError
    return [f"{_scalar(name)}{first}", *(line[column:] for line in others)]


def _replaced(node: Node, value: Any, is_json: bool) -> _Change:
    """A scalar with another value, in the quotes that it had."""
    style = node.style if isinstance(node, ScalarNode) else None
    written = _scalar(value, is_json)
    if isinstance(value, str) and style == "'" and value.isprintable():
        written = "'" + value.replace("'", "''") + "'"
    elif isinstance(value, str) and style == '"':
        written = json.dumps(value, ensure_ascii=False)
    return _Change(node.start_mark.index, node.end_mark.index, written)


def _deepest(node: Node, where: Path) -> tuple[Node, Path]:
    """The last node on the way to `where`, and the parts of the way that are not there."""
    for index, part in enumerate(where):
        entry = _entry(node, part)
        if entry is None:
            return node, where[index:]
        node = entry[1]
    return node, ()


def _entry(node: Node, part: str | int) -> tuple[Node, Node] | None:
    """The key and the value of a mapping's entry, or a sequence's entry as both."""
    if isinstance(node, MappingNode):
        return next((entry for entry in reversed(node.value) if entry[0].value == part), None)
    if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _key_of(node: Node, value: Node) -> Node | None:
    """The key whose value is this node; an entry of a sequence has none."""
    nodes = [node]
    while nodes:
        node = nodes.pop()
        for entry in node.value if isinstance(node, MappingNode | SequenceNode) else ():
            if isinstance(entry, tuple) and entry[1] is value:
                key: Node = entry[0]
                return key
            nodes.append(entry[1] if isinstance(entry, tuple) else entry)
    return None


def _entry_end(text: str, entry: Any) -> int:
    """Where the text of an entry ends, be it of a mapping or of a sequence."""
    if not isinstance(entry, tuple):
        return _end(text, entry)
    key, value = entry
    if value.start_mark.index == value.end_mark.index:  # nothing is written behind the colon
        return text.index(":", key.end_mark.index) + 1
    return _end(text, value)


def _end(text: str, node: Node) -> int:
    """Where the text of a node ends; a block collection's own mark is behind the comments that follow it."""
    if isinstance(node, MappingNode | SequenceNode) and node.value and not node.flow_style:
        return _entry_end(text, node.value[-1])
    end: int = node.end_mark.index
    while end and text[end - 1] == "\n":  # behind a block scalar
        end -= 1
    return end


def _line_end(text: str, index: int) -> int:
    """Where the line ends that `index` is in."""
    found = text.find("\n", index)
    return len(text) if found < 0 else found


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == _NULL


def _data(node: Node) -> Any:
    """The plain data of a node."""
    return yaml.constructor.SafeConstructor().construct_document(copy.deepcopy(node))


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _scalar(value: Any, is_json: bool = False) -> str:
    """A value as YAML and, where asked for, JSON write it: in quotes where YAML 1.1 would misread it."""
    if not is_json and isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in YAML_WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _flow(value: Any, is_json: bool = False) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        entries = [f"{_scalar(key, is_json)}: {_flow(entry, is_json)}" for key, entry in value.items()]
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(entry, is_json) for entry in value) + "]"
    return _scalar(value, is_json)


def _block(value: Any) -> list[str]:
    """A value as lines from column 0 on."""
    if isinstance(value, dict) and value:
        return [line for key, entry in value.items() for line in _block_entry(key, entry)]
    if isinstance(value, list) and value:
        blocks = [_block(entry) for entry in value]
        return [f"{'  ' if i else '- '}{line}" for block in blocks for i, line in enumerate(block)]
    return [_flow(value)]


def _block_entry(key: str, value: Any) -> list[str]:
    lines = _block(value)
    if not value or _is_scalar(value):
        return [f"{_scalar(key)}: {lines[0]}"]
    return [f"{_scalar(key)}:", *(f"  {line}" for line in lines)]
