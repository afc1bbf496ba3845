"""Members of a body's JSON, found by search: quotes are found faster than patterns are tried at bytes."""

from __future__ import annotations

import re

SHORT_BYTES = 8192
"""Of less than that the pattern is tried at every byte: a hop costs as much as 200 to 300 of them."""
HOPS, FAR_BYTES = 32, 256
"""Where so many quotes in a row are less than so far apart on average, the pattern itself is searched for."""


def search(
    pattern: re.Pattern[bytes], letters: bytes, body: bytes | bytearray, begin: int, end: int
) -> re.Match[bytes] | None:
    """The first match between `begin` and `end` of a pattern that begins by a quote and one of `letters`."""
    if end - begin < SHORT_BYTES:
        return pattern.search(body, begin, end)
    at = last = begin
    num_left = HOPS
    while True:
        at = body.find(b'"', at, end)
        if at < 0 or at + 1 >= end:
            return None
        if body[at + 1] in letters:
            found = pattern.match(body, at, end)
            if found is not None:
                return found
        at += 1
        num_left -= 1
        if not num_left:
            if at - last < HOPS * FAR_BYTES:
                return pattern.search(body, at, end)
            last, num_left = at, HOPS
