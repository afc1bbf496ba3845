"""A tenant's `cache_salt`, and how it gets into a request's body without parsing it.

vLLM hashes `cache_salt` into the first block of a prompt, so prompts of different salts share no block in
any tier (https://docs.vllm.ai/en/stable/design/prefix_caching/, read 2026-12-01). Whoever knows a tenant's
salt could probe what it has cached, so a salt is derived with a key that only routers hold.

The salt becomes the last member of the body's object. Parsers take the last of two members with the same
name, and what stands there can't be inside a string or a deeper object: were it, the body would no longer
be JSON and the engine would refuse it. A member of that name that the client sent is taken out all the
same, whatever way its name is spelled.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from itertools import islice

from hypertier.router.access import names
from hypertier.tier.tenants import tenant_tag

SALT_KEY_BYTES = 32
MAX_TOKENS = 100_000
"""Of JSON that are read to find a client's own salt: 20 ms. A body is read only where it may have one."""

_WHITESPACE = b" \t\n\r"
_EMPTY = re.compile(rb"[ \t\n\r]*+\{[ \t\n\r]*+\}")
_OPENS = re.compile(rb"[ \t\n\r]*+\{")
# Each letter as it is or as an escape.
_NAME = re.compile(
    b'"' + b"".join(rb"(?:%c|\\u00(?i:%02x))" % (letter, letter) for letter in b"cache_salt") + b'"'
)
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]', re.DOTALL)


def derive(key: bytes, tenant: str) -> bytes:
    """The tenant's salt: its tag, by which L2 knows whose quota it is, a dot, and what nobody can guess.

    60 characters of A-Z, a-z, 0-9, `.`, `-` and `_`; vLLM 0.32 takes 128 at most, without `@`, `/` and `\\`.
    """
    digest = hmac.new(key, b"cache_salt\0" + tenant.encode(), hashlib.sha256).digest()
    return tenant_tag(tenant).hex().encode() + b"." + base64.urlsafe_b64encode(digest).rstrip(b"=")


def member(salt: bytes) -> bytes:
    """What `splice` writes for a salt."""
    return b'"cache_salt":"%s"' % salt


NO_TRANSFER = b',"kv_transfer_params":null'
"""Behind the salt where engines read one another's blocks: by these parameters a client could name any."""


def splice(body: bytes | bytearray, written: bytes) -> bytes | bytearray | None:
    """The body with `written`, a `member`, as its object's last, and without the client's own.

    A bytearray is changed in place. None where the body is no JSON object as far as can be seen without
    parsing it: it does not begin with `{` and end with `}`, or it has a salt of its own and is malformed, or
    longer than `MAX_TOKENS` before it.
    """
    end = _end_of_object(body)
    if end < 0:
        return None
    if names.search(_NAME, b"c\\", body, 0, end) is not None:
        own = own_members(body)
        if own is None:
            return None
        if own:
            body = _without(body, own)
            end = _end_of_object(body)
    separator = b"" if body[1] != 0x22 and _EMPTY.match(body) is not None else b","
    if isinstance(body, bytearray):
        body[end:end] = separator + written
        return body
    return b"".join((memoryview(body)[:end], separator, written, body[end:]))


def own_members(body: bytes | bytearray) -> list[tuple[int, int]] | None:
    """Where the body's object has members named `cache_salt`: from the name to behind the value.

    None where it is malformed, or has more than `MAX_TOKENS` tokens before the last candidate's end.
    """
    candidates = [found.start() for found in islice(_NAME.finditer(body), MAX_TOKENS + 1)]
    if not candidates:
        return []
    if len(candidates) > MAX_TOKENS:  # each is a token
        return None
    last = candidates[-1]
    found: list[tuple[int, int]] = []
    depth = 0
    at = 0  # everything before is understood
    name_at = -1  # of the member being read at depth 1
    is_own = False
    for number, token in enumerate(_TOKEN.finditer(body)):
        if number > MAX_TOKENS or b'"' in body[at : token.start()]:
            return None
        at = token.end()
        mark = body[token.start()]
        if mark == 0x22:  # a string
            if depth == 1 and name_at < 0:
                name_at = token.start()
                is_own = _NAME.fullmatch(body, token.start(), at) is not None
        elif mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
        if (depth == 1 and mark == 0x2C) or depth == 0:
            if is_own:
                found.append((name_at, token.start()))
            name_at, is_own = -1, False
            if token.start() > last or depth == 0:
                break
    else:
        return None
    return found


def _without(body: bytes | bytearray, spans: list[tuple[int, int]]) -> bytes | bytearray:
    """The body without these members, each with one comma beside it; copied once, however many they are."""
    kept: list[bytes | bytearray] = []
    at = 0
    for begin, end in spans:
        kept.append(body[at:begin])
        at = end + 1 if body[end : end + 1] == b"," else end
    begun = b"".join(kept)
    if at == spans[-1][1]:  # the last member: the comma before it goes, where there is one
        before = begun.rstrip(_WHITESPACE)
        begun = before[:-1] if before.endswith(b",") else begun
    result = begun + body[at:]
    return bytearray(result) if isinstance(body, bytearray) else result


def begins_as_object(body: bytes | bytearray) -> bool:
    """The first character is the brace of a JSON object, whatever the body is said to be."""
    return _OPENS.match(body) is not None


def _end_of_object(body: bytes | bytearray) -> int:
    """Where the last `}` stands; -1 where the body does not begin with `{` and end with it."""
    if len(body) < 2:
        return -1
    end = len(body) if body[-1] == 0x7D else len(body.rstrip(_WHITESPACE))
    begins = body[0] == 0x7B or body.lstrip(_WHITESPACE)[:1] == b"{"
    return end - 1 if begins and end > 1 and body[end - 1] == 0x7D else -1
