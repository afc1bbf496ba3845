"""Heads in their plain form, read by one regular expression; whatever is not plain is llhttp's.

Nearly every message is plain: one line ending, token names, no control characters, one length, nothing that
speaks of the connection but `keep-alive`. Reading these costs a fifth of what the parser's callbacks do. A
pattern here accepts less than llhttp does, never more: the tests hold both against each other.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# One field, its line ending in front. Every name that matters is either read, once, or makes the head not
# plain: `(?(N)(?!)|...)` fails where group N has matched already.
_VALUE = rb"[^\x00-\x08\x0a-\x1f\x7f]*+"
_LENGTH = rb"[Cc]ontent-[Ll]ength:[ \t]*+([0-9]{1,15}+)[ \t]*+(?=\r)"
_REQUEST_ID = rb"[Xx]-[Rr]equest-[Ii][Dd]:[ \t]*+(" + _VALUE + rb")"
_OTHER = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++:" + _VALUE
_REQUEST = re.compile(
    rb"(GET|POST) (/[!\"$-~]*+) HTTP/1\.1"
    rb"((?:\r\n(?:"
    rb"(?(4)(?!)|" + _LENGTH + rb")"
    rb"|(?(5)(?!)|[Hh]ost(:)" + _VALUE + rb")"
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
_BODILESS = (b"204", b"304")

CHUNKED = -1
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


class ResponseHead(NamedTuple):
    """A replica's response head, ready for the client, up to and without its last empty line.

    `ends_with_connection`: the body has neither length nor chunks, so only the closed connection ends it.
    `length` is the body's, CHUNKED, or None where llhttp keeps count.
    """

    raw: bytes
    status: int
    ends_with_connection: bool
    has_request_id: bool
    is_stream: bool
    length: int | None = None


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
