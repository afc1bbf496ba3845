"""A request as it came, and what of its head goes on to an engine; and of an engine's head, to the client."""

from __future__ import annotations

import re
from typing import Final

from hypertier.router.http.plain import Head, ResponseHead

# A client's `Connection: authorization` would otherwise strip a header that the engine relies on.
_NEVER_NOMINATED = frozenset(
    {b"authorization", b"content-type", b"content-encoding", b"host", b"x-request-id"}
)
_RESPONSE_HOP_BY_HOP = re.compile(
    rb"\r\n(?:connection|keep-alive|proxy-connection|upgrade):[^\r\n]*", re.IGNORECASE
)
_CONNECTION: Final = re.compile(rb"\r\nconnection:([^\r\n]*)")
_RESPONSE_HOP_NAMES: Final = (
    b"\r\nconnection:",
    b"\r\nkeep-alive:",
    b"\r\nproxy-connection:",
    b"\r\nupgrade:",
)

_LENGTH_OR_CODING: Final = re.compile(rb"\r\n(?:content-length|transfer-encoding):[^\r\n]*", re.IGNORECASE)
_CODING: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*([^\r\n]*)")

_NOTHING: frozenset[bytes] = frozenset()


class Request:
    """One request as it came, whole.

    `fields` holds the headers by lower-case name, the last of each; `repeated` names those sent more than
    once. `forwarded` are the header lines that do not speak of the client's connection, nor of the body's
    length; what is changed there goes to the engine, and so does another `body`. `request_id` is the client's
    own; one that `upgrades` asks for a WebSocket. `num_held_bytes` is what the body counts for in the budget,
    whatever becomes of it.
    """

    is_http_1_0 = False
    keep_alive = True
    upgrades = False
    request_id: bytes | None = None
    num_held_bytes = 0
    head: Head | None = None
    _length = 0
    _fields: dict[bytes, bytes] | None = None
    _repeated: frozenset[bytes]
    _forwarded: list[bytes] | None = None

    def __init__(
        self,
        method: bytes = b"GET",
        target: bytes = b"/",
        body: bytes | bytearray = b"",
        *,
        has_body: bool = False,
        head: Head | None = None,
        length: int = 0,
    ) -> None:
        self.method = method
        self.target = target
        self.body = body
        self.has_body = has_body
        self.head = head
        self._length = length
        self._repeated = _NOTHING

    @property
    def path(self) -> bytes:
        """The target without its query."""
        if self.head is not None and self.head.target is self.target:
            return self.head.path
        return self.target.partition(b"?")[0]

    @property
    def fields(self) -> dict[bytes, bytes]:
        """By name; few requests are asked for them."""
        if self._fields is None:
            self._fields = {}
            head = self.head
            if head is not None:
                self._fields = dict(head.values)
                self._repeated = head.repeated
                if head.has_length:
                    self._fields[b"content-length"] = b"%d" % self._length
        return self._fields

    @property
    def repeated(self) -> frozenset[bytes]:
        """Names of `fields` that were sent more than once."""
        return self._repeated if self.fields else _NOTHING

    def add_field(self, lower: bytes, value: bytes) -> None:
        """One more was read, of this name in lower case."""
        fields = self.fields
        if lower in fields:
            self._repeated |= {lower}
        fields[lower] = value

    def field(self, name: bytes) -> bytes | None:
        """One of `fields`, by its name in lower case; costs little."""
        if self._fields is None and self.head is not None and name != b"content-length":
            return self.head.values.get(name)
        return self.fields.get(name)

    @property
    def forwarded(self) -> list[bytes]:
        """Line by line, each with its end."""
        if self._forwarded is None:
            lines = self.head.fields(self._length).split(b"\r\n")[1:] if self.head is not None else ()
            self._forwarded = [line + b"\r\n" for line in lines if line[:15].lower() != b"content-length:"]
        return self._forwarded

    @property
    def whole_head(self) -> Head | None:
        """What goes to the engine but for the body's length, where nobody edited single lines."""
        return self.head if self._forwarded is None else None

    @property
    def head_lines(self) -> bytes:
        """All lines that go to the engine, each begun by a line ending; maybe the body's length."""
        head = self.whole_head
        return head.fields(self._length) if head is not None else (b"\r\n" + b"".join(self.forwarded))[:-2]

    def take_out(self, lines: re.Pattern[bytes]) -> None:
        """Leave lines out of what goes to the engine: the pattern begins with a line ending."""
        if self.head is not None and self._forwarded is None:
            self.head = self.head.without(lines)
        else:
            self._forwarded = [line for line in self.forwarded if not lines.match(b"\r\n" + line)]


def request_head(request: Request, request_id: bytes) -> bytes:
    """The head sent to a replica: the client's fields as they came, without those of the client's connection.

    A chunked body was read whole and travels with its length. `request_id` is added where the client sent
    none. An HTTP/1.0 client's request stays one, so that an engine which heeds that need not be read anew.
    """
    head = request.whole_head
    if head is not None:
        begin = head.begin
        if request.target is not head.target:
            begin = b"%b %b HTTP/1.1%b" % (request.method, request.target, begin[begin.find(b"\r\n") :])
        more = b"" if head.request_id is not None else b"\r\nx-request-id: " + request_id
        if head.has_length:
            return b"%b%d%b%b\r\n\r\n" % (begin, len(request.body), head.rest, more)
        if request.body:
            more += b"\r\nContent-Length: %d" % len(request.body)
        return b"%b%b\r\n\r\n" % (begin, more)
    lines = _forwarded(request)
    if request.has_body or request.body:
        lines += b"\r\nContent-Length: %d" % len(request.body)
    if request.request_id is None:
        lines += b"\r\nx-request-id: " + request_id
    if request.upgrades:
        lines += b"\r\nConnection: Upgrade\r\nUpgrade: websocket"
    version = b"1.0" if request.is_http_1_0 else b"1.1"
    return b"%b %b HTTP/%b%b\r\n\r\n" % (request.method, request.target, version, lines)


def _forwarded(request: Request) -> bytes:
    forwarded = request.forwarded
    connection = request.fields.get(b"connection")
    if connection is not None:
        nominated = {token.strip().lower() for token in connection.split(b",")} - _NEVER_NOMINATED
        forwarded = [line for line in forwarded if line.partition(b":")[0].lower() not in nominated]
    return (b"\r\n" + b"".join(forwarded))[:-2]


def _without_nominated(raw: bytes, lower: bytes) -> bytes:
    """Drop what `Connection` names, too (RFC 9110 section 7.6.1), but for what the body is read by."""
    named: set[bytes] = set()
    for value in _CONNECTION.findall(lower):
        named.update(token.strip() for token in value.split(b","))
    named -= _NEVER_NOMINATED | {b"content-length", b"transfer-encoding", b""}
    first, *lines = raw.split(b"\r\n")
    return b"\r\n".join([first, *(line for line in lines if line.partition(b":")[0].lower() not in named)])


def is_framed_for_clients(raw: bytes) -> bool:
    """Whether a client can read the body of the answer with this head.

    A transfer coding but `chunked` is for whoever asked for it by `TE` (RFC 9112 section 7.4, read
    2026-12-02), and nobody did: that field ends here. In HTTP/1.0 there is none at all (section 6.1).
    """
    codings = [coding.strip() for coding in _CODING.findall(raw.lower())]
    return not codings or (codings == [b"chunked"] and not raw.startswith(b"HTTP/1.0"))


def response_head(raw: bytes, *, status: int, is_head: bool) -> ResponseHead:
    """Drop from `raw`, a head with its empty line, what speaks about the replica's connection."""
    lower = raw.lower()
    ends_with_connection = not (
        is_head
        or status in (204, 304)
        or b"\r\ncontent-length:" in lower
        or b"\r\ntransfer-encoding:" in lower
    )
    raw = raw[:-2]
    if status == 204:  # RFC 9110 section 8.6, RFC 9112 section 6.1 (read 2026-12-02): it has neither
        raw = _LENGTH_OR_CODING.sub(b"", raw)
    for name in _RESPONSE_HOP_NAMES:
        if name in lower:
            raw = _without_nominated(_RESPONSE_HOP_BY_HOP.sub(b"", raw), lower)
            break
    if raw.startswith(b"HTTP/1.0"):
        raw = b"HTTP/1.1" + raw[8:]
    return ResponseHead(
        raw,
        status,
        ends_with_connection,
        has_request_id=b"\r\nx-request-id:" in lower,
        is_stream=status == 200 and b"\r\ncontent-type: text/event-stream" in lower,
    )
