"""Reads what people paste: YAML out of web pages, chats and terminals, with what they did to it undone.

Every repair keeps the number of lines, so that a line of the repaired text is the same line of the pasted
one: prose becomes comments, fences become comments or document marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from hypertier.errors import ManifestError
from hypertier.spec.characters import STEPS, STRANGE, without_margin
from hypertier.spec.reindent import known_names, reindented, top_level_names
from hypertier.spec.rules.subject import TYPES
from hypertier.spec.source import check_size, read_documents
from hypertier.spec.structure import faults
from hypertier.spec.suggest import nearest
from hypertier.spec.tree import Document

_FENCE = re.compile(r"^\s*(```+|~~~+)\s*[\w.+-]*\s*$")
_TIGHT = re.compile(r"^(?P<before>\s*(?:-\s+)?)(?P<key>[A-Za-z][A-Za-z0-9]*):(?P<value>(?!//)[^\s:].*)$")
_TIGHT_IN_FLOW = re.compile(r"(?P<before>[{,]\s*)(?P<key>[A-Za-z][A-Za-z0-9]*):(?P<value>(?!//)[^\s:])")
_KEY = re.compile(r"^(?P<indent>\s*)(?P<key>[A-Za-z][\w./-]*)\s*:(\s|$)")
_WORD = re.compile(r"[a-z][A-Za-z0-9]*")
_START = re.compile(r"^\s*apiVersion\s*:")
_KIND = re.compile(r"^\s*kind\s*:\s*[A-Z]\w*\s*$")

MIN_WORDS_OF_PROSE = 3
MAX_LINES = 5000  # nobody pastes more, and guessing at the structure of more takes long

Lines = list[str]


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done to a pasted file, from which line on."""

    rule: str
    line: int
    en: str
    ko: str


@dataclass(frozen=True, slots=True)
class Understood:
    """The documents of a text, the text that they were read from, and what was repaired to get there."""

    documents: tuple[Document, ...]
    text: str
    repairs: tuple[Repair, ...]


def understand(text: str, file: str) -> Understood:
    """Read `text` as it is, or as it was before it was pasted.

    Raises:
        ManifestError: it is neither, with the line of the pasted text at which reading ended.
    """
    check_size(text, file)
    text = plain_line_ends(text)
    repairs: list[Repair] = []
    if STRANGE.search(text):
        text = _without_strange_characters(text, repairs)
    if re.match(r"\s*(>|\d)", text) and text.count("\n") < MAX_LINES:
        text = _without_margin(text, repairs)
    problem: ManifestError | None = None
    documents: Sequence[Document] = ()
    try:
        documents = read_documents(text, file)
    except ManifestError as error:
        problem = error
    if problem is None and not _is_suspicious(text, documents):
        return Understood(tuple(documents), text, tuple(repairs))
    if "apiVersion" in text and text.count("\n") < MAX_LINES:
        best = _structural(text, documents if problem is None else None, file)
        if best is not None:
            return Understood(best.documents, best.text, (*repairs, *best.repairs))
    if problem is not None:
        raise problem
    return Understood(tuple(documents), text, tuple(repairs))


def plain_line_ends(text: str) -> str:
    """`text` without a byte order mark, its lines ended as on Unix."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _without_strange_characters(text: str, repairs: list[Repair]) -> str:
    lines = text.split("\n")
    for step in STEPS:
        _each(lines, repairs, step.mend, step.rule, step.en, step.ko)
    return "\n".join(lines)


def _without_margin(text: str, repairs: list[Repair]) -> str:
    """The text without line numbers or quotation marks of a mail that stand before every line."""
    found = without_margin(text.split("\n"))
    if found is None:
        return text
    margin, lines = found
    repairs.append(
        Repair(
            "paste-margin", 1, f"every line has {margin} before it", f"모든 줄 앞에 {margin}이(가) 있습니다"
        )
    )
    return "\n".join(lines)


def _each(
    lines: Lines, repairs: list[Repair], mend: Callable[[str], str], rule: str, en: str, ko: str
) -> None:
    """Apply `mend` to every line in place, and report those that changed as one repair."""
    changed = []
    for index, line in enumerate(lines):
        mended = mend(line)
        if mended != line:
            lines[index] = mended
            changed.append(index + 1)
    _report(repairs, rule, changed, en, ko)


def _report(repairs: list[Repair], rule: str, numbers: Sequence[int], en: str, ko: str) -> None:
    if numbers:
        repairs.append(Repair(rule, numbers[0], f"{_lines(numbers)} {en}", f"{_lines_ko(numbers)}: {ko}"))


def _lines(numbers: Sequence[int]) -> str:
    return f"line {numbers[0]}" if len(numbers) == 1 else f"line {numbers[0]} (and {len(numbers) - 1} more)"


def _lines_ko(numbers: Sequence[int]) -> str:
    return f"{numbers[0]}행" if len(numbers) == 1 else f"{numbers[0]}행 외 {len(numbers) - 1}개 행"


def _is_suspicious(text: str, documents: Iterable[Document]) -> bool:
    """Whether a text that is YAML is probably not the YAML that was meant."""
    known = known_names()
    if any(match["key"] in known for match in map(_TIGHT.match, text.split("\n")) if match):
        return True
    for document in documents:
        data = document.data
        if not isinstance(data, dict):
            return "apiVersion" in text
        if ("apiVersion",) in document.duplicates:
            return True
        names = top_level_names(str(data.get("kind")))
        if names is not None and (_looks_flat(data) or _has_strays(data, names, known)):
            return True
    return False


def _has_strays(data: dict[str, object], names: Container[str], known: Container[str]) -> bool:
    """Whether a key on top is prose or belongs below; one of nowhere that has a value is misspelled."""
    return any(
        key not in names and (key in known or value is None or not _WORD.fullmatch(key))
        for key, value in data.items()
    )


def _looks_flat(data: dict[str, object]) -> bool:
    """Whether fields stand beside the one that they belong into: `spec:` without anything below it."""
    if any(name in data and not data[name] for name in ("spec", "metadata")):
        return True
    spec = data.get("spec")
    return isinstance(spec, dict) and any(
        name in spec and not spec[name] for name in ("worker", "modelSourceConfig", "model", "server")
    )


def _structural(text: str, before: Sequence[Document] | None, file: str) -> Understood | None:
    """The text with its structure mended, or None where that makes it no better."""
    lines, repairs = text.split("\n"), list[Repair]()
    _comment_out_prose(lines, repairs)
    known = known_names()
    _each(
        lines,
        repairs,
        lambda line: _loosened(line, known),
        "paste-colon",
        "has no space after the colon; YAML would read key and value as one text",
        "콜론 뒤에 공백이 없어 YAML이 키와 값을 한 글자열로 읽습니다",
    )
    _rebuild_indentation(lines, repairs, file)
    mended = "\n".join(lines)
    if not repairs:
        return None
    try:
        after = read_documents(mended, file)
    except ManifestError:
        return None
    if before is not None and _num_faults(after) >= _num_faults(before):
        return None
    if before is None and not any(isinstance(document.data, dict) for document in after):
        return None
    return Understood(tuple(after), mended, tuple(repairs))


def _num_faults(documents: Iterable[Document]) -> int:
    """How far documents are from their types; one that is no mapping counts as very far."""
    total = 0
    for document in documents:
        if not isinstance(document.data, dict):
            total += 1000
            continue
        cls = TYPES.get(str(document.data.get("kind")))
        if cls is not None:
            total += len(document.duplicates)
            total += sum(fault.kind in ("unknown", "missing", "type") for fault in faults(cls, document.data))
    return total


def _loosened(line: str, known: frozenset[str]) -> str:
    match = _TIGHT.match(line)
    if match is None or match["key"] not in known:
        return line
    value = _TIGHT_IN_FLOW.sub(lambda inner: _spaced(inner, known), match["value"])
    return f"{match['before']}{match['key']}: {value}"


def _spaced(match: re.Match[str], known: frozenset[str]) -> str:
    space = " " if match["key"] in known else ""
    return f"{match['before']}{match['key']}:{space}{match['value']}"


def _comment_out_prose(lines: Lines, repairs: list[Repair]) -> None:
    """Turn fences and sentences around manifests into comments, and part documents that follow each other."""
    fenced = any(_FENCE.match(line) for line in lines)
    fences, prose, parted, marks = list[int](), list[int](), list[int](), list[int]()
    inside_fence = inside = False
    is_apart = True  # whether a document mark stands before what comes next
    kind: str | None = None
    base = 0
    for index, line in enumerate(lines):
        text = line.strip()
        if _FENCE.match(line):
            inside_fence, inside, kind = not inside_fence, False, None
            lines[index] = f"# {text}"
            fences.append(index + 1)
        elif text == "---":
            if line != line.lstrip():
                marks.append(index + 1)
            lines[index] = "---"
            inside, is_apart, kind = False, True, None
        elif not text or text.startswith("#"):
            continue
        elif fenced and not inside_fence:
            lines[index] = f"# {line}"
            prose.append(index + 1)
        elif _START.match(line) or (not inside and _KIND.match(line)):
            if not is_apart and _part(lines, index):
                parted.append(index + 1)
            inside, is_apart = True, False
            kind, base = _kind_below(lines, index), len(line) - len(line.lstrip())
        elif kind is not None and not inside and not is_apart and _is_known_field(line):
            inside = True  # a sentence had interrupted the document
        elif not inside or _is_prose(line, kind, base):
            lines[index] = f"# {line}"
            prose.append(index + 1)
            inside = False
    _report(
        repairs, "paste-markdown", fences, "is a Markdown fence, not YAML", "YAML이 아닌 Markdown 펜스입니다"
    )
    _report(
        repairs,
        "paste-indentation",
        marks,
        "is a document mark, which stands at the beginning of its line",
        "문서 구분 표시(---)는 줄 맨 앞에 있어야 합니다",
    )
    _report(
        repairs,
        "paste-prose",
        prose,
        "is no YAML; it became a comment",
        "YAML이 아니어서 주석으로 바꿨습니다",
    )
    _report(
        repairs,
        "paste-document",
        parted,
        "begins another document without --- before it",
        "앞에 ---가 없이 다른 문서가 시작됩니다",
    )


def _part(lines: Lines, start: int) -> bool:
    """Put a document mark into the nearest blank or comment line before `start`, if there is one."""
    before = start - 1
    text = lines[before].strip() if before >= 0 else "x"
    if text and not text.startswith("#"):
        return False
    lines[before] = f"--- {text}".rstrip()
    return True


def _kind_below(lines: Lines, start: int) -> str | None:
    for line in lines[start : start + 10]:
        match = re.match(r"\s*kind\s*:\s*(\w+)", line)
        if match:
            return match[1]
    return None


def _is_prose(line: str, kind: str | None, base: int) -> bool:
    """Whether a line at a document's own depth is none of its fields: a sentence, even one with a colon."""
    text = line.strip()
    deeper = len(line) - len(line.lstrip()) > base
    if deeper or text == "-" or text.startswith(("- ", "]", "}")):
        return False
    match = _KEY.match(line) or _TIGHT.match(line)
    if match is None:
        return True
    names, value = top_level_names(kind), text.partition(":")[2].strip()
    if names is None or match["key"] in known_names() or nearest(match["key"], names) is not None:
        return False
    return not value.startswith(tuple("{[\"'|>&*!#")) and len(value.split()) >= MIN_WORDS_OF_PROSE


def _is_known_field(line: str) -> bool:
    match = _KEY.match(line) or _TIGHT.match(line)
    return match is not None and match["key"] in known_names()


def _rebuild_indentation(lines: Lines, repairs: list[Repair], file: str) -> None:
    """Indent anew every document of a known kind that is no YAML or flat, one after the other."""
    starts = [index for index, line in enumerate(lines) if _START.match(line)]
    for number, start in enumerate(starts):
        following = starts[number + 1] if number + 1 < len(starts) else len(lines)
        end = next((index for index in range(start, following) if lines[index].strip() == "---"), following)
        kind = _kind_below(lines, start)
        if kind not in TYPES:
            continue
        part = lines[start:end]
        if not _needs_indentation(part, file):
            continue
        rebuilt = reindented(part, TYPES[str(kind)])
        if rebuilt is not None and rebuilt != part:
            lines[start:end] = rebuilt
            repairs.append(
                Repair(
                    "paste-indentation",
                    start + 1,
                    f"line {start + 1} begins a document that lost its indentation; it was rebuilt from the "
                    f"fields of {kind}",
                    f"{start + 1}행: 들여쓰기가 사라진 문서입니다. {kind}의 필드에 따라 복원했습니다",
                )
            )


def _needs_indentation(part: Lines, file: str) -> bool:
    try:
        documents = read_documents("\n".join(part), file)
    except ManifestError:
        return True
    return any(not isinstance(document.data, dict) or _looks_flat(document.data) for document in documents)
