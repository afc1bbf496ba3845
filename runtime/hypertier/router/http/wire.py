"""HTTP/1.1 as bytes: requests read off a client's connection.

Requests in the plain form are read by `plain`, all others by httptools (llhttp in its strict mode). That
refuses what makes two parsers disagree: both `Content-Length` and `Transfer-Encoding`, repeated or malformed
lengths, bare CR or LF, folded lines, spaces before the colon, control characters. This file adds what llhttp
lets pass and a proxy must not: other transfer codings than `chunked`, chunked bodies in HTTP/1.0, HTTP/0.9, a
missing, repeated or malformed `Host`, a target with a fragment, CONNECT. What opens a WebSocket is the last
request of its connection; another upgrade is declined by serving the request without it, its body included.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Final, cast

import httptools

from hypertier.router.api.openai import Refusal
from hypertier.router.http.heads import Request
from hypertier.router.http.plain import AUTHORITY, MAX_KEPT_BYTES, Head, head_of, read_request

# RFC 9110 section 7.6.1 (read 2026-12-01): these speak about one connection and end at a proxy.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
        b"expect",
        b"content-length",
    }
)
_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
_HOST: Final = re.compile(AUTHORITY)
_HOST_LINE: Final = b"host:"

MAX_HEADERS: Final = 128
LONG_BODY_BYTES: Final = 64 * 1024
"""Where it is worth while to ask about the head before a body is read."""
MAX_READY: Final = 64
"""Requests that are read before the first of them is answered: a read may have thousands."""
_PIECE_BYTES: Final = 32 * 1024
# A part that is kept as it came costs some 50 bytes more than it is long, and some come byte by byte.
_SHORT_BYTES: Final = 4096
# Chunk framing costs 6 bytes for a body byte at worst without extensions; more is not a body but an attack.
_MAX_FRAMING_PER_BODY_BYTE: Final = 16


class BodyBudget:
    """Bytes of request bodies that all connections together may hold in memory."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.held_bytes = 0

    def take(self, num_bytes: int) -> bool:
        """Reserve; False, and nothing is reserved, where the budget is spent."""
        if self.held_bytes + num_bytes > self.capacity_bytes:
            return False
        self.held_bytes += num_bytes
        return True

    def give(self, num_bytes: int) -> None:
        """Return what was taken."""
        self.held_bytes -= num_bytes


class RequestReader:
    """Turns bytes into requests, whatever their fragmentation.

    Whole requests wait in `ready`, in order. A malformed or oversized one sets `refusal`, to be answered
    after what is ready, and ends the connection: nothing behind it is read. Bodies count against `budget`
    until the owner gives them back, one `request.num_held_bytes` for each request taken from `ready`. What
    `check_head` returns of a request with a long body is such a refusal. `refused_path` is that of a refused
    request whose head was read; `behind` is what came behind a WebSocket's opening.
    """

    def __init__(
        self,
        *,
        max_head_bytes: int,
        max_body_bytes: int,
        budget: BodyBudget,
        check_head: Callable[[Request], Refusal | None] | None = None,
    ) -> None:
        self.ready: deque[Request] = deque()
        self.refusal: Refusal | None = None
        self.refused_path = b""
        self.expects_continue = False
        self.behind = b""
        self.started = False
        self._max_head_bytes = max_head_bytes
        self._max_body_bytes = max_body_bytes
        self._budget = budget
        self._check_head = check_head
        self._parser: httptools.HttpRequestParser | None = None
        self._request = Request()
        self._last_head: Head | None = None
        self._missing_bytes = 0
        self._parts: list[bytes | bytearray | memoryview] = []
        self.in_body = False
        self._closing = False
        self._head_bytes = 0
        self._unparsed_bytes = 0
        self._fed_in_body = 0
        self._target = b""
        self._body_follows_upgrade = False

    def feed(self, data: bytes) -> bytes:
        """Read on, until MAX_READY requests or more are ready; returns what is left of `data` then.

        Never raises for what a client can send; look at `ready` and `refusal`.
        """
        while data and self.refusal is None and not self._closing:
            if len(self.ready) >= MAX_READY:
                return data
            if self._missing_bytes:
                data = self._continue_plain(data)
            elif self.started:
                data = self._feed_once(data)
            else:
                data = self._begin(data)
        return b""

    def drop(self) -> None:
        """Give back what a message, begun and never finished, holds of the budget; and all that is ready."""
        self._give_up_body()
        for request in self.ready:
            self._budget.give(request.num_held_bytes)
        self.ready.clear()
        self._closing = True

    def _begin(self, data: bytes) -> bytes:
        head = self._last_head
        length, begin = head.measure(data) if head is not None else (0, 0)
        if not begin:
            plain = read_request(data, self._max_head_bytes, MAX_HEADERS)
            if plain is not None:
                length, begin = -1 if plain.length is None else plain.length, plain.end
                head = head_of(data, plain)
                self._last_head = head if begin <= MAX_KEPT_BYTES else None
        if head is None or not begin or length > self._max_body_bytes:
            # llhttp does not tell of spaces before a value: only here they count.
            if len(data) > self._max_head_bytes and data.find(b"\r\n\r\n", 0, self._max_head_bytes) < 0:
                self._refuse_head()
                return b""
            if self._parser is None or not self._body_follows_upgrade:
                self._parser = httptools.HttpRequestParser(self)
            return self._feed_once(data)
        request = Request(head.method, head.target, has_body=length >= 0, head=head, length=length)
        request.request_id = head.request_id
        if length <= 0:
            self.ready.append(request)
            return data[begin:]
        end = begin + length
        if len(data) < end:
            problem = self._check_head(request) if self._check_head and length > LONG_BODY_BYTES else None
            if problem is not None:
                self._refuse(problem, request)
                return b""
            self._request = request
            self._parts = []
            self._missing_bytes = length
            self.started = self.in_body = True
            self._take_body(memoryview(data)[begin:])
            return b""
        if not self._budget.take(length):
            self._refuse(_overloaded(), request)
            return b""
        request.body = data[begin:end]
        request.num_held_bytes = length
        self.ready.append(request)
        return data[end:] if end < len(data) else b""

    def _continue_plain(self, data: bytes) -> bytes:
        num_bytes = min(len(data), self._missing_bytes)
        self._take_body(data if num_bytes == len(data) else data[:num_bytes])
        return data[num_bytes:] if num_bytes < len(data) else b""

    def _take_body(self, part: bytes | memoryview) -> None:
        """The body grows; parts are copied once, when it is whole, and short ones before."""
        request = self._request
        if not self._budget.take(len(part)):
            self._refuse(_overloaded(), request)
            return
        request.num_held_bytes += len(part)
        parts = self._parts
        if len(part) >= _SHORT_BYTES:
            parts.append(part)
        elif parts and isinstance(parts[-1], bytearray):
            parts[-1] += part
        else:
            parts.append(bytearray(part))
        self._missing_bytes -= len(part)
        if not self._missing_bytes:
            request.body = b"".join(self._parts)
            self._parts = []
            self.started = self.in_body = False
            self.ready.append(request)

    def _give_up_body(self) -> None:
        if self.started:
            self._budget.give(self._request.num_held_bytes)
            self._request.body, self._request.num_held_bytes = b"", 0
            self._parts = []

    def _feed_once(self, data: bytes) -> bytes:
        """Have llhttp read the next piece; returns what it has not read."""
        data, rest = (data[:_PIECE_BYTES], data[_PIECE_BYTES:]) if len(data) > _PIECE_BYTES else (data, b"")
        request, was_in_head, was_in_body = self._request, self.started and not self.in_body, self.in_body
        parser = cast(httptools.HttpRequestParser, self._parser)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._request.upgrades:
                self.behind = data[upgrade.args[0] :] + rest
                return b""
            self._decline_upgrade()
            return data[upgrade.args[0] :] + rest
        except httptools.HttpParserError as error:
            if not self._closing:  # bytes behind a request that ends the connection are nobody's
                self._refuse(Refusal(400, f"not an HTTP/1.1 request: {error}", "malformed_request"))
            return b""
        if request is self._request and was_in_head and not self.in_body and self.started:
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > self._max_head_bytes:
                self._refuse_head()
        elif request is self._request and was_in_body and self.in_body:
            self._bound_framing(len(data))
        return rest

    def _decline_upgrade(self) -> None:
        """Read on as if none had been offered: httptools ends such a message behind its head, body or not."""
        self._parser = parser = httptools.HttpRequestParser(self)
        if not self._body_follows_upgrade:
            return
        fields = self._request.fields
        name = b"content-length" if b"content-length" in fields else b"transfer-encoding"
        parser.feed_data(b"POST / HTTP/1.1\r\n%s: %s\r\n\r\n" % (name, fields[name]))

    def _bound_framing(self, num_fed_bytes: int) -> None:
        self._fed_in_body += num_fed_bytes
        num_body_bytes = len(self._request.body)
        framing = self._fed_in_body - num_body_bytes
        if framing > self._max_head_bytes + _MAX_FRAMING_PER_BODY_BYTE * num_body_bytes:
            self._refuse(Refusal(400, "more chunk framing than body", "malformed_request"))

    # What follows is called by httptools, in the order of the message.

    def on_message_begin(self) -> None:
        if self._body_follows_upgrade:
            return
        self._request = Request()
        self._target = b""
        self._head_bytes = 0
        self._unparsed_bytes = 0
        self._fed_in_body = 0
        self.started = True

    def on_url(self, part: bytes) -> None:
        if self._body_follows_upgrade:
            return
        self._target += part
        self._head_bytes += len(part)
        if self._head_bytes > self._max_head_bytes:
            self._refuse_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer is read, bounded with the chunk framing, and left out.
        if self.in_body or self._body_follows_upgrade:
            return
        request = self._request
        value = value.rstrip(b" \t")  # llhttp leaves these, `plain` does not
        lower = name.lower()
        if lower == b"connection" and lower in request.fields:  # each line names further ones
            request.add_field(lower, b"%b, %b" % (request.fields[lower], value))
        else:
            request.add_field(lower, value)
        if lower not in _HOP_BY_HOP:
            request.forwarded.append(b"%s: %s\r\n" % (name, value))
            if len(request.forwarded) > MAX_HEADERS:
                self._refuse(Refusal(431, f"more than {MAX_HEADERS} header fields", "header_too_large"))
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > self._max_head_bytes:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        self.in_body = True
        if self._body_follows_upgrade:
            self._body_follows_upgrade = False
            return
        if self.refusal is not None or self._closing:
            return
        request, parser = self._request, cast(httptools.HttpRequestParser, self._parser)
        request.method = parser.get_method()
        request.is_http_1_0 = parser.get_http_version() == "1.0"
        request.keep_alive = parser.should_keep_alive() and not request.is_http_1_0
        request.target = self._target
        absolute = _ABSOLUTE.match(self._target)
        if absolute is not None:
            path = self._target[absolute.end() :]
            if not path and request.method == b"OPTIONS":
                path = b"*"  # about the whole server: RFC 9112 section 3.2.4
            elif path[:1] != b"/":
                path = b"/" + path
            request.target = path
            _name_host(request, absolute.group(1))
        problem = _problem_with_head(request, parser.get_http_version(), self._max_body_bytes)
        if problem is None and self._check_head is not None and _has_long_body(request):
            problem = self._check_head(request)
        if problem is not None:
            self._refuse(problem, request)
            return
        if _asks_websocket(request):
            request.upgrades, request.keep_alive = True, False
        request.request_id = request.fields.get(b"x-request-id")
        request.has_body = b"content-length" in request.fields or b"transfer-encoding" in request.fields
        self.expects_continue = b"expect" in request.fields and not request.is_http_1_0

    def on_body(self, part: bytes) -> None:
        if self.refusal is not None or self._closing:
            return
        self.expects_continue = False
        request = self._request
        if len(request.body) + len(part) > self._max_body_bytes:
            self._refuse(_too_large(self._max_body_bytes), request)
            return
        if not self._budget.take(len(part)):
            self._refuse(_overloaded(), request)
            return
        request.num_held_bytes += len(part)
        if not request.body:
            request.body = part
        elif isinstance(request.body, bytearray):
            request.body += part
        else:
            request.body = bytearray(request.body) + part

    def on_message_complete(self) -> None:
        self.in_body = False
        if self.refusal is not None or self._closing:
            return
        if cast(httptools.HttpRequestParser, self._parser).should_upgrade() and self._request.has_body:
            self._body_follows_upgrade = True
            return
        self.started = False
        self.expects_continue = False
        self._closing = not self._request.keep_alive
        self.ready.append(self._request)

    def _refuse_head(self) -> None:
        self._refuse(
            Refusal(431, f"request head is larger than {self._max_head_bytes} bytes", "header_too_large")
        )

    def _refuse(self, refusal: Refusal, request: Request | None = None) -> None:
        if self.refusal is None:
            self.refusal = refusal
            self.refused_path = b"" if request is None else request.path
            self.expects_continue = False
            self._give_up_body()


def _name_host(request: Request, authority: bytes) -> None:
    """The target's authority is the host, whatever the field says (RFC 9112 section 3.2.2, 2026-12-02)."""
    others = [line for line in request.forwarded if line[: len(_HOST_LINE)].lower() != _HOST_LINE]
    named = len(request.forwarded) - len(others)
    if named > 1 or (named == 0 and not request.is_http_1_0):
        return  # to be refused, see `_problem_with_head`
    request.forwarded[:] = [b"Host: %b\r\n" % authority, *others]
    request.fields[b"host"] = authority


def _has_long_body(request: Request) -> bool:
    """More is to come than what comes with the head anyway."""
    length = request.fields.get(b"content-length")
    return b"transfer-encoding" in request.fields or (length is not None and int(length) > LONG_BODY_BYTES)


def _asks_websocket(request: Request) -> bool:
    return b"websocket" in request.fields.get(b"upgrade", b"").lower()


def _opens_websocket(request: Request) -> bool:
    """As RFC 6455 section 4.1 has it: then HTTP ends for all behind the same byte."""
    fields = request.fields
    tokens = [token.strip().lower() for token in fields.get(b"connection", b"").split(b",")]
    return (
        request.method == b"GET"
        and not request.is_http_1_0
        and fields[b"upgrade"].lower() == b"websocket"
        and b"upgrade" not in request.repeated
        and b"upgrade" in tokens
        and not fields.keys() & {b"content-length", b"transfer-encoding", b"expect"}
    )


def _too_large(max_body_bytes: int) -> Refusal:
    return Refusal(413, f"request body is larger than {max_body_bytes} bytes", "request_too_large")


def _overloaded() -> Refusal:
    return Refusal(
        503, "the router holds as many request bodies as it may", "overloaded", retry_after_seconds=1
    )


def _problem_with_head(request: Request, version: str, max_body_bytes: int) -> Refusal | None:
    """What llhttp lets pass and a proxy must not."""
    fields = request.fields
    if version not in ("1.1", "1.0"):
        return Refusal(505, f"HTTP/{version} is not served; use HTTP/1.1", "http_version")
    if request.method == b"CONNECT":
        return Refusal(501, "this router does not tunnel: CONNECT is not served", "not_implemented")
    if _asks_websocket(request) and not _opens_websocket(request):
        problem = "a WebSocket is opened by GET in HTTP/1.1 with Connection: Upgrade, and without a body"
        return Refusal(400, problem, "malformed_request")
    # RFC 9112 section 3.2 (read 2026-12-02): a path, a URI of HTTP, or * for OPTIONS; CONNECT is not served.
    if request.target[:1] != b"/" and (request.method, request.target) != (b"OPTIONS", b"*"):
        return Refusal(400, "a target is a path, or an http URI", "malformed_request")
    if b"#" in request.target:  # RFC 9112 section 3.2 has none; httptools, and so uvicorn, cuts it off
        return Refusal(400, "a request's target has no fragment", "malformed_request")
    coding = fields.get(b"transfer-encoding")
    if coding is not None and (
        coding.strip().lower() != b"chunked"
        or request.is_http_1_0
        or b"transfer-encoding" in request.repeated
    ):
        return Refusal(400, "the only transfer coding served is chunked, in HTTP/1.1", "malformed_request")
    if b"host" in request.repeated or not (b"host" in fields or request.is_http_1_0):
        return Refusal(400, "a request names its host once", "malformed_request")
    host = fields.get(b"host")
    if host is not None and _HOST.fullmatch(host) is None:
        problem = "the host that a request names is a name or an address, and a port or none"
        return Refusal(400, problem, "malformed_request")
    length = fields.get(b"content-length")
    if length is not None and int(length) > max_body_bytes:
        return _too_large(max_body_bytes)
    expect = fields.get(b"expect")
    if expect is not None and expect.strip().lower() != b"100-continue":
        return Refusal(417, "the only expectation served is 100-continue", "expectation_failed")
    return None
