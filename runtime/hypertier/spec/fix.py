"""Applies what findings know how to mend: in the text itself, or else by writing its document anew.

Only values that follow from the manifest itself are set; what the author alone can know stays as it is.
"""

from __future__ import annotations

import difflib
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from hypertier.errors import ManifestError
from hypertier.spec.finding import Finding, Report
from hypertier.spec.patch import YAML_WORDS, patched
from hypertier.spec.rules.rule import Edit
from hypertier.spec.source import read_documents
from hypertier.spec.tree import Path

MAX_WIDTH = 4096  # no line of a manifest is folded anew


@dataclass(frozen=True, slots=True)
class Mended:
    """One file before and after, both with plain line ends."""

    file: str
    before: str
    after: str

    @property
    def diff(self) -> str:
        """The patch, as `diff -u` writes it."""
        return "".join(
            difflib.unified_diff(
                self.before.splitlines(keepends=True),
                self.after.splitlines(keepends=True),
                self.file,
                self.file,
            )
        )


def mended(report: Report) -> list[Mended]:
    """What each file of a report would be with every known edit made; others don't show."""
    by_file: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        if finding.edits:
            by_file[finding.file].append(finding)
    results = []
    for file, source in report.sources.items():
        after = _edited(source.repaired, by_file.get(file, []))
        if after != source.pasted:
            results.append(Mended(file, source.pasted, after))
    return results


def _edited(text: str, findings: Sequence[Finding]) -> str:
    """`text` with the edits of `findings` made in place where that comes to the same as writing it anew."""
    if not findings:
        return text
    edits = _edits_by_document(findings)
    anew = _written_anew(text, edits)
    in_place = patched(text, edits) if anew != text else None
    return in_place if in_place is not None and _same(in_place, anew) else anew


def _same(text: str, other: str) -> bool:
    """Whether both read as the same data."""
    try:
        return [found.data for found in read_documents(text, "")] == [
            found.data for found in read_documents(other, "")
        ]
    except ManifestError:
        return False


def _written_anew(text: str, edits: Mapping[int, Sequence[Edit]]) -> str:
    """`text` read, edited and written; unchanged where that would not read back as YAML."""
    yaml = _round_trip(text)
    is_json = _is_json(text)
    try:
        documents = list(yaml.load_all(text))
        present = [document for document in documents if document is not None]
        for document, some in edits.items():
            if document < len(present):
                for edit in some:
                    apply(present[document], edit)
        if is_json:
            return json.dumps(present[0], indent=2, ensure_ascii=False) + "\n"
        stream = io.StringIO()
        yaml.dump_all(documents, stream)
        after = stream.getvalue()
        read_documents(after, "")
    except (YAMLError, ManifestError, RecursionError, ValueError):
        return text
    return after


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _edits_by_document(findings: Iterable[Finding]) -> Mapping[int, list[Edit]]:
    """Each edit once, renames and moves first.

    What would be set or removed where one of these leads is left for the next round of linting: it was found
    without what the author wrote there, under another name.
    """
    order = {"rename": 0, "move": 1, "remove": 2, "set": 3}
    edits: dict[int, list[Edit]] = defaultdict(list)
    for finding in findings:
        for edit in finding.edits:
            if edit not in edits[finding.document]:
                edits[finding.document].append(edit)
    return {
        document: sorted(
            (edit for edit in found if not _overlaps(edit, found)), key=lambda edit: order[edit.action]
        )
        for document, found in edits.items()
    }


def _overlaps(edit: Edit, others: Iterable[Edit]) -> bool:
    """Whether it sets or removes something at, above or below where a rename or a move leads."""
    if edit.action not in ("set", "remove"):
        return False
    targets = [(*other.where[:-1], other.value) for other in others if other.action == "rename"]
    targets += [other.value for other in others if other.action == "move"]
    return any(
        edit.where[: len(target)] == target or target[: len(edit.where)] == edit.where for target in targets
    )


def _round_trip(text: str) -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.allow_duplicate_keys = True
    yaml.width = MAX_WIDTH
    yaml.explicit_start = text.startswith("---")
    if re.search(r"(?m)^(\s*)[\w\"'./-]+:\s*\n\1 +- ", text):
        yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def apply(document: Any, edit: Edit) -> bool:
    """Make one edit of a document in place; False where the place is not there or is taken."""
    parent = _parent(document, edit.where, create=edit.action == "set")
    key = edit.where[-1]
    if parent is None:
        return False
    if edit.action == "set":
        return _set(parent, key, edit.value)
    if not isinstance(parent, CommentedMap) or key not in parent:
        return False
    if edit.action == "remove":
        del parent[key]
        return True
    if edit.action == "rename":
        return _rename(parent, str(key), str(edit.value))
    target = _parent(document, edit.value, create=True)
    if not isinstance(target, CommentedMap) or edit.value[-1] in target:
        return False
    target[edit.value[-1]] = parent.pop(key)
    return True


def _parent(document: Any, where: Path, *, create: bool) -> Any:
    """What holds the last part of `where`; mappings that are missing on the way are made if asked for."""
    node = document
    for part in where[:-1]:
        if isinstance(node, CommentedMap):
            if node.get(part) is None:
                if not create or not isinstance(part, str):
                    return None
                node[part] = CommentedMap()
            node = node[part]
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            return None
    return node


def _set(parent: Any, key: str | int, value: Any) -> bool:
    if isinstance(parent, list) and isinstance(key, int) and key < len(parent):
        parent[key] = _kept_style(parent[key], value)
        return True
    if not isinstance(parent, CommentedMap):
        return False
    before = parent.get(key)
    if isinstance(before, list) and isinstance(value, list) and value[: len(before)] == list(before):
        before.extend(value[len(before) :])  # keeps the comments of what is there
    else:
        parent[key] = _kept_style(before, value)
    return True


def _kept_style(before: Any, value: Any) -> Any:
    """A text in the quotes of what it replaces; new text that YAML would misread in double quotes."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, ScalarString

    if not isinstance(value, str):
        return value
    if isinstance(before, ScalarString):
        return type(before)(value)
    is_plain = re.fullmatch(r"[A-Za-z/][\w./:@-]*", value) and value.lower() not in YAML_WORDS
    return value if is_plain else DoubleQuotedScalarString(value)


def _rename(parent: CommentedMap, old: str, new: str) -> bool:
    if new in parent:
        return False
    position = list(parent).index(old)
    comment = parent.ca.items.pop(old, None)
    parent.insert(position, new, parent.pop(old))
    if comment is not None:
        parent.ca.items[new] = comment
    return True
