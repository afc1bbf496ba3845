"""What a page, a chat or a terminal did to a manifest line by line: its characters, and what stands before
them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

SPACES = "\u00a0\u2007\u202f\u3000"
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
QUOTES = "\u201c\u201d\u2018\u2019"
ENTITIES = ("&quot;", "&lt;", "&gt;", "&amp;", "&#39;")

# One look at a text tells whether any of the steps below has something to do.
STRANGE = re.compile(rf"[\t{SPACES}{INVISIBLE}{QUOTES}`\uff1a]|\\\$\{{|&(?:quot|lt|gt|amp|#39);")
_SPACE = re.compile(f"[{SPACES}]")
_LEADING_SPACE = re.compile(rf"^[\s{SPACES}]+|(?<=[:-])[{SPACES}]+")
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_QUOTED = re.compile(rf"(?P<before>[:\-]\s+)[{QUOTES}](?P<text>[^{QUOTES}]*)[{QUOTES}](?P<after>\s*(#.*)?)$")
_BACKTICKED = re.compile(r"(?P<before>(?::|^\s*-)\s+)`(?P<text>[^`]*)`(?P<after>\s*(?:#.*)?)$")
_WIDE_COLON = re.compile("^(?P<key>\\s*(?:-\\s+)?[A-Za-z]\\w*)\uff1a\\s*")
_NUMBERED = re.compile(r"^\s*(?P<number>\d{1,5})(?:[.:|)]\s?|\s|$)(?P<line>.*)$")


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of damage: its rule, how a line is mended, and what is said of the lines that changed."""

    rule: str
    mend: Callable[[str], str]
    en: str
    ko: str


def _spaces(line: str) -> str:
    if not any(letter in line for letter in SPACES + INVISIBLE):
        return line
    if '"' in line or "'" in line:  # inside quotes they may be meant
        return _LEADING_SPACE.sub(lambda match: _SPACE.sub(" ", match[0]), line.lstrip(INVISIBLE))
    return _INVISIBLE.sub("", _SPACE.sub(" ", line))


def _tabs(line: str) -> str:
    stripped = line.lstrip(" \t")
    indent = line[: len(line) - len(stripped)]
    return indent.replace("\t", "  ") + stripped


def _quotes(line: str) -> str:
    return _QUOTED.sub(lambda match: f"{match['before']}{quoted(match['text'])}{match['after']}", line)


def quoted(text: str) -> str:
    """`text` as YAML writes it in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _backticks(line: str) -> str:
    return _BACKTICKED.sub(r"\g<before>\g<text>\g<after>", line)


def _entities(line: str) -> str:
    return html.unescape(line) if any(entity in line for entity in ENTITIES) else line


STEPS = (
    Step(
        "paste-html",
        _entities,
        "has HTML's names for characters, such as &quot;",
        "&quot; 같은 HTML 문자 이름이 있습니다",
    ),
    Step(
        "paste-space",
        _spaces,
        "holds spaces that YAML does not know; they became plain ones",
        "YAML이 모르는 공백 문자가 있어 일반 공백으로 바꿨습니다",
    ),
    Step(
        "paste-tab",
        _tabs,
        "is indented with tabs, which YAML forbids; each became two spaces",
        "YAML에서 금지된 탭으로 들여썼습니다. 탭을 공백 두 개로 바꿨습니다",
    ),
    Step(
        "paste-colon",
        lambda line: _WIDE_COLON.sub(r"\g<key>: ", line),
        "has a wide colon, which YAML takes for text",
        "YAML이 글자로 읽는 전각 콜론이 있습니다",
    ),
    Step(
        "paste-quotes",
        _quotes,
        "has typographic quotes, which YAML takes for text",
        "YAML이 글자로 읽는 둥근 따옴표가 있습니다",
    ),
    Step(
        "paste-markdown",
        _backticks,
        "has Markdown's backticks around a value",
        "값에 Markdown 백틱이 있습니다",
    ),
    Step(
        "paste-escape",
        lambda line: line.replace("\\${", "${"),
        "escapes ${ for a shell; the backslash would stay in the value",
        "셸을 위해 ${를 이스케이프했습니다. 백슬래시가 값에 남습니다",
    ),
)


def without_margin(lines: list[str]) -> tuple[str, list[str]] | None:
    """Lines without the numbers or the `>` that stand before each of them, and which it was; else None."""
    written = [line for line in lines if line.strip()]
    if len(written) < 3:
        return None
    if all(line.lstrip().startswith(">") for line in written):
        return ">", [re.sub(r"^\s*> ?", "", line) for line in lines]
    matches = [_NUMBERED.match(line) for line in written]
    numbers = [int(match["number"]) for match in matches if match is not None]
    if len(numbers) < len(written) or any(after <= before for before, after in pairwise(numbers)):
        return None
    return "123", [_NUMBERED.sub(r"\g<line>", line) for line in lines]
