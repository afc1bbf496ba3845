"""Token ids that the router asked an engine for, and its client did not: that gets `null` in their place.

What a model writes has no such member: a quote inside a JSON string has a backslash before it.
"""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = (b"prompt_token_ids", b"token_ids")
_BEGIN: Final = re.compile(rb'"(?:prompt_token_ids|token_ids)"\s*+:\s*+\[')
_IDS: Final = re.compile(rb'("(?:prompt_token_ids|token_ids)"\s*+:\s*+)\[[^\]]*+\]')
_CUT: Final = re.compile(rb'"([a-z_]{0,16})(?:"\s*+(?::\s*+)?)?\Z')
_MAX_CUT_BYTES: Final = 64
"""A name has 18 with its quotes; who writes more white space than the rest shows ids."""


def without_ids(event: bytes) -> bytes:
    """A whole event as its client gets it."""
    return _IDS.sub(rb"\1null", event)


class WithoutIds:
    """The same for a text that is cut anywhere, and too long to be kept."""

    def __init__(self) -> None:
        self._held = b""  # it may become a member's begin
        self._is_inside = False

    def read(self, piece: bytes, *, is_last: bool = False) -> bytes:
        """What of the text up to here is shown, and was not yet."""
        text, at, shown = self._held + piece, 0, b""
        self._held = b""
        while True:
            if self._is_inside:
                end = text.find(b"]", at)
                if end < 0:
                    return shown
                self._is_inside, at = False, end + 1
            found = _BEGIN.search(text, at)
            if found is None:
                break
            shown += text[at : found.end() - 1] + b"null"
            self._is_inside, at = True, found.end()
        rest = text[at:]
        num_held = 0 if is_last else _num_cut(rest)
        self._held = rest[len(rest) - num_held :]
        return shown + rest[: len(rest) - num_held]


def _num_cut(text: bytes) -> int:
    """Bytes at its end that may become a member's begin."""
    found = _CUT.search(text, max(0, len(text) - _MAX_CUT_BYTES))
    if found is None:
        return 0
    name, is_whole = found[1], found[0].count(b'"') > 1
    may_become = name in _NAMES if is_whole else any(each.startswith(name) for each in _NAMES)
    return len(found[0]) if may_become else 0
