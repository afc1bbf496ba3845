"""Heads in their plain form, read by one regular expression; whatever is not plain is llhttp's.

Nearly every message is plain: one line ending, token names, no control characters, one length, nothing that
speaks of the connection but `keep-alive`. Reading these costs a fifth of what the parser's callbacks do. A
pattern here accepts less than llhttp does, never more: the tests hold both against each other.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# One field, its line ending in front. Every name that matters is either read, once, or makes the head not
# plain: `(?(N)(?!)|...)` fails where group N has matched already.
_VALUE = rb"[^\x00-\x08\x0a-\x1f\x7f]*+"
_LENGTH = rb"[Cc]ontent-[Ll]ength:[ \t]*+(0|[1-9][0-9]{0,14}+)[ \t]*+(?=\r)"
_REQUEST_ID = rb"[Xx]-[Rr]equest-[Ii][Dd]:[ \t]*+(" + _VALUE + rb")"
# RFC 9112 section 3.2 (read 2026-12-02): `uri-host [ ":" port ]`, as RFC 3986 section 3.2.2 has a host; RFC
# 9110 section 4.2.1 has a server reject an empty one.
AUTHORITY = (
    rb"(?:\[(?:[0-9A-Fa-f:.]++|[Vv][0-9A-Fa-f]++\.[!$&'()*+,;=:\-._~0-9A-Za-z]++)\]"
    rb"|(?:[!$&'()*+,;=\-._~0-9A-Za-z]|%[0-9A-Fa-f]{2})++)(?::[0-9]*+)?"
)
_OTHER = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++:" + _VALUE
_REQUEST = re.compile(
    rb"(GET|POST) (/[!\"$-~]*+) HTTP/1\.1"
    rb"((?:\r\n(?:"
    rb"(?(4)(?!)|" + _LENGTH + rb")"
    rb"|(?(5)(?!)|[Hh]ost(:)[ \t]*+" + AUTHORITY + rb"[ \t]*+(?=\r))"
    rb"|(?(6)(?!)|" + _REQUEST_ID + rb")"
    rb"|(?(7)(?!)|([Cc]onnection:[ \t]*+[Kk]eep-[Aa]live[ \t]*+(?=\r)))"
    rb"|(?![CEHKPTUXcehkptux](?i:onnection|ontent-length|xpect|ost|ttp2-settings|eep-alive|roxy-[^:]*|e"
    rb"|railer|ransfer-encoding|pgrade|-request-id):)" + _OTHER + rb"))++)"
    rb"\r\n\r\n"
)
_ANSWER = re.compile(
    rb"(HTTP/1\.1 ([2-5][0-9][0-9]) [^\x00-\x1f\x7f]*+"
    rb"(?:\r\n(?:"
    rb"(?(3)(?!)|(?(4)(?!)|" + _LENGTH + rb"))"
    rb"|(?(3)(?!)|(?(4)(?!)|[Tt]ransfer-[Ee]ncoding:[ \t]*+(chunked)[ \t]*+(?=\r)))"
    rb"|(?(5)(?!)|[Cc]ontent-[Tt]ype: (text/event-stream)" + _VALUE + rb")"
    rb"|(?(6)(?!)|" + _REQUEST_ID + rb")"
    rb"|(?![CKPTUXckptux](?i:onnection|ontent-length|eep-alive|roxy-[^:]*|e|railer|ransfer-encoding|pgrade"
    rb"|-request-id):)" + _OTHER + rb"))++"
    rb"\r\n)\r\n"
)
_DIGITS: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength:[ \t]*+([0-9]++)")
MAX_DIGITS: Final = 15
_BODILESS: Final = (b"204", b"304")

CHUNKED: Final = -1
"""In place of a length."""


class PlainRequest(NamedTuple):
    """A request's head. `fields` are its lines, each begun by its line ending, without `Connection`.

    `length` is None where the head has none; `end` is where the body begins.
    """

    method: bytes
    target: bytes
    fields: bytes
    request_id: bytes | None
    length: int | None
    end: int


def read_request(data: bytes, max_head_bytes: int, max_fields: int) -> PlainRequest | None:
    """The head that `data` begins with; None for one that is not whole, or not plain."""
    found = _REQUEST.match(data)
    if found is None:
        return None
    method, target, fields, length, host, request_id, connection = found.groups()
    end = found.end()
    if host is None or end > max_head_bytes or fields.count(b"\r\n") > max_fields:
        return None
    if connection is not None:
        begin = found.start(3)
        fields = data[begin : found.start(7) - 2] + data[found.end(7) : end - 4]
    return PlainRequest(
        method,
        target,
        fields,
        request_id and request_id.rstrip(b" \t"),
        None if length is None else int(length),
        end,
    )


class Head:
    """A request's plain head but for its body's length: the same client's next one is often the same.

    `begin` is all up to the digits of the length, request line and fields without `Connection`, and `rest`
    the fields behind; where it does not have one, `begin` is all. What is found out about it is kept for all
    requests: `values` by lower-case name, the last of each, without the length; `known` is for who asks.
    """

    __slots__ = (
        "_num_begin",
        "_plain",
        "_raw",
        "_raw_begin",
        "_raw_rest",
        "_without",
        "_without_lines",
        "begin",
        "has_length",
        "known",
        "method",
        "path",
        "repeated",
        "request_id",
        "rest",
        "target",
        "values",
    )

    def __init__(self, data: bytes, plain: PlainRequest) -> None:
        self._plain = plain
        self._raw = raw = data[: plain.end]
        self.method = plain.method
        self.target = plain.target
        self.path = plain.target.partition(b"?")[0]
        self.request_id = plain.request_id
        self.has_length = plain.length is not None
        self._raw_begin, self._raw_rest = _around_length(raw, self.has_length)
        self._num_begin = len(self._raw_begin)
        begin, self.rest = _around_length(plain.fields, self.has_length)
        self.begin = b"%b %b HTTP/1.1%b" % (plain.method, plain.target, begin)
        self.values: dict[bytes, bytes] = {}
        self.repeated: frozenset[bytes] = frozenset()
        self.known: dict[object, object] = {}
        self._without_lines: re.Pattern[bytes] | None = None
        self._without: Head | None = None  # itself, where it has none of these lines any more
        for line in plain.fields.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            lower = name.lower()
            if lower in self.values:
                self.repeated |= {lower}
            self.values[lower] = value.strip(b" \t")
        self.values.pop(b"content-length", None)

    def measure(self, data: bytes) -> tuple[int, int]:
        """Length of the body, -1 for none, and where it begins; 0, 0 where `data` begins otherwise."""
        begin = self._num_begin
        if data[:begin] != self._raw_begin:
            return 0, 0
        if not self.has_length:
            return -1, begin
        return measure(data, begin, self._raw_rest)

    def without(self, lines: re.Pattern[bytes]) -> Head:
        """The same without these lines: the pattern begins with a line ending. `values` stay."""
        if self._without_lines is lines:  # a pattern as a key would be hashed each time, all of it
            return self if self._without is None else self._without
        other = Head(self._raw, self._plain)  # mypyc's objects can't be copied
        other.begin, other.rest = lines.sub(b"", self.begin), lines.sub(b"", self.rest)
        other._without_lines = self._without_lines = lines
        self._without = other
        return other

    def fields(self, length: int) -> bytes:
        """Its lines, each begun by its line ending, with a body's length where it has one."""
        begin = self.begin[self.begin.find(b"\r\n") :]
        return b"%b%d%b" % (begin, length, self.rest) if self.has_length else begin


_shared: dict[bytes, Head] = {}
MAX_SHARED: Final = 256
MAX_KEPT_BYTES: Final = 4096
"""A longer head is forgotten with its request: ten thousand idle clients must not each leave one here."""


def head_of(data: bytes, plain: PlainRequest) -> Head:
    """What `data` begins with; the same for many connections, which may be idle for long."""
    if plain.end > MAX_KEPT_BYTES:
        return Head(data, plain)
    key = b"%b\0%b" % _around_length(data[: plain.end], plain.length is not None)
    head = _shared.get(key)
    if head is None:
        if len(_shared) >= MAX_SHARED:
            _shared.clear()
        head = _shared[key] = Head(data, plain)
    return head


def _around_length(text: bytes, has_length: bool) -> tuple[bytes, bytes]:
    found = _DIGITS.search(text) if has_length else None
    return (text, b"") if found is None else (text[: found.start(1)], text[found.end(1) :])


class ResponseHead:
    """A replica's response head, ready for the client, up to and without its last empty line.

    `ends_with_connection`: the body has neither length nor chunks, so only the closed connection ends it.
    `length` is the body's, CHUNKED, or None where llhttp keeps count.
    """

    __slots__ = ("ends_with_connection", "has_request_id", "is_stream", "length", "raw", "status")

    def __init__(
        self,
        raw: bytes,
        status: int,
        ends_with_connection: bool,
        has_request_id: bool,
        is_stream: bool,
        length: int | None = None,
    ) -> None:
        self.raw = raw
        self.status = status
        self.ends_with_connection = ends_with_connection
        self.has_request_id = has_request_id
        self.is_stream = is_stream
        self.length = length


def read_answer(data: bytes) -> tuple[ResponseHead, int] | None:
    """The head that `data` begins with, and where it ends; None for one that is not whole, or not plain."""
    found = _ANSWER.match(data)
    if found is None:
        return None
    raw, status, length, chunked, stream, request_id = found.groups()
    if status in _BODILESS:
        return None
    if length is not None:
        num_bytes = int(length)
    elif chunked is not None:
        num_bytes = CHUNKED
    else:
        return None
    is_stream = stream is not None and status == b"200"
    head = ResponseHead(raw, int(status), False, request_id is not None, is_stream, num_bytes)
    return head, found.end()


class AnswerReader:
    """`read_answer` for one connection after another head: most differ in their body's length alone."""

    __slots__ = ("_begin", "_last", "_num_begin", "_rest")

    def __init__(self) -> None:
        self._begin = b""
        self._num_begin = 0
        self._rest = b""
        self._last: ResponseHead | None = None

    def read(self, data: bytes) -> tuple[ResponseHead, int] | None:
        """As `read_answer`."""
        last = self._last
        if last is not None and data[: self._num_begin] == self._begin:
            end = self._num_begin
            length = CHUNKED
            if last.length != CHUNKED:
                length, end = measure(data, end, self._rest)
            if end:
                head = ResponseHead(
                    data[: end - 2], last.status, False, last.has_request_id, last.is_stream, length
                )
                return head, end
        found = read_answer(data)
        if found is not None and found[1] <= MAX_KEPT_BYTES:
            self._last, end = found
            self._begin, self._rest = _around_length(data[:end], self._last.length != CHUNKED)
            self._num_begin = len(self._begin)
        return found


def measure(data: bytes, begin: int, rest: bytes) -> tuple[int, int]:
    """The number at `begin`, and where what is behind it ends, if that is `rest`; else 0, 0."""
    number, at, last = 0, begin, min(len(data), begin + MAX_DIGITS)
    while at < last:
        digit = data[at] - 48
        if digit < 0 or digit > 9:
            break
        number = number * 10 + digit
        at += 1
    end = at + len(rest)
    if at == begin or (data[begin] == 48 and at - begin > 1) or data[at:end] != rest:
        return 0, 0
    return number, end
