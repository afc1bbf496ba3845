"""The body of an answer that is a stream of events: out of its chunks, event by event, and into chunks."""

from __future__ import annotations

import re
from typing import Final

import httptools

from hypertier.router.http.plain import CHUNKED, ResponseHead
from hypertier.router.settings import MIB

MAX_EVENT_BYTES: Final = 8 * MIB
"""The first one has the tokens of its prompt: a million at seven bytes and a comma each."""
LAST_CHUNK: Final = b"0\r\n\r\n"
# Each of the three may end lines (https://html.spec.whatwg.org/multipage/server-sent-events.html).
_EMPTY_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_MAX_EMPTY_LINE_BYTES: Final = 4
_ENCODING: Final = re.compile(rb"\r\ncontent-encoding:([^\r\n]*)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"(?<=\r\n)content-length:[^\r\n]*\r\n", re.IGNORECASE)


class Chunks:
    """Takes a body out of its chunks, where it `is_chunked`, and into events, piece by piece.

    With an event of more than `MAX_EVENT_BYTES` that ends: from then on it `is_uncut`, and `uncut` tells the
    body as it comes. One that is no stream of events is so from the beginning.
    """

    def __init__(self, *, is_chunked: bool = True, is_uncut: bool = False) -> None:
        self.is_chunked = is_chunked
        self.is_complete = False
        self.is_uncut = is_uncut
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

    def body(self, data: bytes) -> bytes:
        """What `data` has of a body that `is_uncut`."""
        self.events(data)
        return self.uncut()

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        self.is_complete = True


def is_encoded(head: ResponseHead) -> bool:
    """Its body is compressed, or something else that can't be read."""
    return any(coding.strip().lower() not in (b"", b"identity") for coding in _ENCODING.findall(head.raw))


def is_chunked(head: ResponseHead) -> bool:
    """Its body comes in chunks."""
    return head.length == CHUNKED or _CHUNKED.search(head.raw) is not None


def without_chunks(head: ResponseHead) -> ResponseHead:
    """The same with a body that the connection's end ends."""
    raw = _CHUNKED.sub(b"\r\n", head.raw)
    return ResponseHead(raw, head.status, True, head.has_request_id, head.is_stream)


def has_length(head: ResponseHead) -> bool:
    """Its body's length is told."""
    return _LENGTH.search(head.raw) is not None


def in_chunks(head: ResponseHead) -> ResponseHead:
    """The same with a body in chunks in place of one with a length."""
    raw = _LENGTH.sub(b"", head.raw) + b"transfer-encoding: chunked\r\n"
    return ResponseHead(raw, head.status, False, head.has_request_id, head.is_stream, CHUNKED)


def chunk(data: bytes) -> bytes:
    """In chunks; nothing is none."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
