"""The body of an answer that is a stream of events: out of its chunks, event by event, and into chunks."""

from __future__ import annotations

import re
from typing import Final

import httptools

from hypertier.router.plain import CHUNKED, ResponseHead
from hypertier.router.settings import MIB

MAX_EVENT_BYTES: Final = 8 * MIB
"""The first one has the tokens of its prompt: a million at seven bytes and a comma each."""
LAST_CHUNK: Final = b"0\r\n\r\n"
# Each of the three may end lines (https://html.spec.whatwg.org/multipage/server-sent-events.html).
_EMPTY_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_MAX_EMPTY_LINE_BYTES: Final = 4


class Chunks:
    """Takes a body out of its chunks, where it `is_chunked`, and into events, piece by piece.

    With an event of more than `MAX_EVENT_BYTES` that ends: from then on `uncut` tells the body as it comes.
    """

    def __init__(self, *, is_chunked: bool = True) -> None:
        self.is_chunked = is_chunked
        self.is_complete = False
        self.is_uncut = False
        self._body = bytearray()
        self._num_searched = 0
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    def events(self, data: bytes) -> list[bytes]:
        """The events that `data` completes, each with its empty line; what is left at the end is one, too."""
        body, begin = self._body, 0
        events: list[bytes] = []
        if not self.is_chunked:
            body += data
        elif data:
            self._parser.feed_data(data)
        if self.is_uncut:
            return []
        at = max(0, self._num_searched - _MAX_EMPTY_LINE_BYTES + 1)
        while True:
            empty_line = _EMPTY_LINE.search(body, at)
            if empty_line is None:
                break
            at = empty_line.end()
            events.append(bytes(body[begin:at]))
            begin = at
        del body[:begin]
        self._num_searched = len(body)
        if self.is_complete and body:
            events.append(self.uncut())
        self.is_uncut = len(body) > MAX_EVENT_BYTES
        return events

    def uncut(self) -> bytes:
        """What of the body is in no event yet, once."""
        rest = bytes(self._body)
        self._body.clear()
        return rest

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        self.is_complete = True


def is_read(head: ResponseHead) -> bool:
    """It is a stream of events, in chunks or to the connection's end, and not compressed."""
    if not head.is_stream:
        return False
    lower = head.raw.lower()
    return b"\r\ncontent-encoding:" not in lower and (
        head.ends_with_connection or head.length == CHUNKED or b"\r\ntransfer-encoding: chunked\r\n" in lower
    )


def chunk(data: bytes) -> bytes:
    """In chunks; nothing is none."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
