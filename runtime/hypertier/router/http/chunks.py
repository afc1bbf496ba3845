"""Where a chunked body ends, by counting its chunks; whatever is not plain is llhttp's.

Nearly every chunk is plain: a size in hex digits, its line ending, so many bytes, a line ending. A stream's
pieces are mostly whole chunks, so a look at the size and at two line endings is all that a piece costs.
"""

from __future__ import annotations

from typing import Final

DONE: Final = -1
MALFORMED: Final = -2
NOT_PLAIN: Final = -3
_MAX_DIGITS: Final = 8
_CR: Final = 13
_LF: Final = 10


def read_chunks(data: bytes, left: int) -> int:
    """Read on: returns what is left of the chunk in hand and its line ending, as `left` is before `data`.

    That is 0 where a size is next. `DONE`: the body ends with `data`. `NOT_PLAIN`: `data` has a size with an
    extension, too long, or cut in two, or an end with trailers, or more than the body; another is to read it.
    """
    num, at = len(data), 0
    while True:
        if left:
            end = at + left
            if end > num:
                return MALFORMED if end - num == 1 and data[num - 1] != _CR else end - num
            if data[end - 1] != _LF or (left > 1 and data[end - 2] != _CR):
                return MALFORMED
            at = end
        if at == num:
            return 0
        begin, size = at, 0
        last = min(num, at + _MAX_DIGITS)
        while at < last:
            code = data[at]
            if 48 <= code <= 57:
                size = size * 16 + code - 48
            elif 97 <= code <= 102:
                size = size * 16 + code - 87
            elif 65 <= code <= 70:
                size = size * 16 + code - 55
            else:
                break
            at += 1
        if at == begin or at + 2 > num or data[at] != _CR or data[at + 1] != _LF:
            return NOT_PLAIN
        at += 2
        if size:
            left = size + 2
        else:
            return DONE if data[at:] == b"\r\n" else NOT_PLAIN


def before(left: int) -> bytes:
    """What a parser of chunks has to have read to be where `left` is, see `read_chunks`."""
    if left > 2:
        return b"%x\r\n" % (left - 2)
    return (b"", b"1\r\nx\r", b"1\r\nx")[left]
