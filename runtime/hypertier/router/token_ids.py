"""Token ids that the router asked an engine for, and its client did not: that gets `null` in their place.

What a model writes has no such member: a quote inside a JSON string has a backslash before it.
"""

from __future__ import annotations

import re
from typing import Final

_IDS: Final = re.compile(rb'"(prompt_token_ids|token_ids)"( ?: ?)\[[0-9, ]*+\]')
_BEGIN: Final = re.compile(rb'"(?:prompt_token_ids|token_ids)" ?: ?\[')
_BEGINS: Final = frozenset(
    b'"%b"%b:%b[' % (name, before, behind)
    for name in (b"prompt_token_ids", b"token_ids")
    for before in (b"", b" ")
    for behind in (b"", b" ")
)
_CUT_BEGINS: Final = frozenset(begin[:end] for begin in _BEGINS for end in range(1, len(begin)))
_MAX_CUT_BYTES: Final = max(map(len, _CUT_BEGINS))


def without_ids(event: bytes) -> bytes:
    """A whole event as its client gets it."""
    return _IDS.sub(rb'"\1"\2null', event)


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
    lengths = range(min(_MAX_CUT_BYTES, len(text)), 0, -1)
    return next((length for length in lengths if text[-length:] in _CUT_BEGINS), 0)
