"""Who asks: the API key or the JWT of a request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, cast

from hypertier.router.access.keys import KeyRing
from hypertier.router.access.verdict import Rejected
from hypertier.router.api.openai import Refusal
from hypertier.router.http.heads import Request

if TYPE_CHECKING:  # it brings a library of cryptography, which a router without JWTs needs not
    from hypertier.router.access.jwt import JwtVerifier

# One pass over a head: all that is asked of it here.
_HEADERS = re.compile(
    rb"\r\n(authorization|x-api-key|content-type|content-encoding):([^\r\n]*)", re.IGNORECASE
)
CREDENTIALS = re.compile(rb"\r\n(?:authorization|x-api-key):[^\r\n]*", re.IGNORECASE)
"""Lines that say who asks: that ends at the router, no engine needs it."""


class Headers(NamedTuple):
    """What a head says of who asks and of the body; `is_repeated` where it names a credential twice.

    A `content_type` is empty where there is none, or more than one.
    """

    authorization: bytes | None
    api_key: bytes | None
    content_type: bytes
    is_encoded: bool
    is_repeated: bool


def read_headers(request: Request) -> Headers:
    """What the request's head says; requests with one head in common are read once."""
    head = request.whole_head
    if head is None:
        return _read_lines(request.head_lines)
    known = head.known.get(Headers)
    if known is None:
        known = head.known[Headers] = _read_lines(request.head_lines)
    return cast(Headers, known)


def _read_lines(lines: bytes) -> Headers:
    """Find them in the lines, which cost more to take apart."""
    found: dict[bytes, bytes] = {}
    repeated: set[bytes] = set()
    for name, value in _HEADERS.findall(lines):
        lower = name.lower()
        if lower in found:
            repeated.add(lower)
        found[lower] = value.strip(b" \t")
    content_type = found.get(b"content-type", b"")
    return Headers(
        found.get(b"authorization"),
        found.get(b"x-api-key"),
        b"" if b"content-type" in repeated else content_type,
        b"content-encoding" in found,
        b"authorization" in repeated or b"x-api-key" in repeated,
    )


class Identity(NamedTuple):
    """A tenant's name, and the session that its token names."""

    tenant: str
    session: bytes | None = None


class _Known(NamedTuple):
    """Whose API key a head has, by these keys, until when."""

    ring: KeyRing
    until: float
    identity: Identity


class Unknown(NamedTuple):
    """Nobody that may ask: why, in one word for the count, and what to answer."""

    cause: str
    refusal: Refusal


_SAID = {
    "no_key": "no API key: send Authorization: Bearer KEY, or x-api-key: KEY",
    "repeated": "more than one Authorization or x-api-key header",
    "scheme": "Authorization is not Bearer KEY",
    "unknown": "the API key is not valid, or no longer",
    "expired": "the JWT has expired",
    "not_yet_valid": "the JWT is not valid yet",
    "audience": "the JWT is for another audience",
    "issuer": "the JWT is of another issuer",
    "tenant": "the JWT names no tenant",
}
_OTHER = "the JWT is not valid"
_NO_JWKS = Unknown(
    "no_jwks",
    Refusal(503, "the keys of JWTs are not here yet", "jwks_unavailable", retry_after_seconds=1),
)


def identify(
    request: Request, headers: Headers, ring: KeyRing, verifier: JwtVerifier | None, now: float
) -> Identity | Unknown:
    """Who asks; `now` is in seconds since 1970. `Authorization` goes before `x-api-key`.

    Whose API key a head has is found out once for all requests with that head, as long as `ring` is in use.
    """
    head = request.whole_head
    if head is not None:
        known = cast("_Known | None", head.known.get(_Known))
        if known is not None and known.ring is ring and now < known.until:
            return known.identity
    credential = headers.authorization
    if headers.is_repeated:
        return unknown("repeated")
    if credential is not None:
        scheme, _, credential = credential.partition(b" ")
        if scheme.lower() != b"bearer":
            return unknown("scheme")
        credential = credential.strip()
    else:
        credential = headers.api_key
    if not credential:
        return unknown("no_key")
    key = ring.find(credential, now)
    if key is not None:
        identity = Identity(key.tenant)
        if head is not None:
            head.known[_Known] = _Known(ring, key.until, identity)
        return identity
    if verifier is None or credential.count(b".") != 2:
        return unknown("unknown")
    if not verifier.has_keys:
        return _NO_JWKS
    verified = verifier.verify(credential, now)
    if isinstance(verified, Rejected):
        return unknown(verified.cause)
    return Identity(verified.tenant, verified.session)


def unknown(cause: str) -> Unknown:
    """401 as OpenAI answers it, without a word of what was sent."""
    refusal = Refusal(
        401, _SAID.get(cause, _OTHER), "invalid_api_key", headers=b"www-authenticate: Bearer\r\n"
    )
    return Unknown(cause, refusal)
