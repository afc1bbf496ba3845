"""Who asks: the API key or the JWT of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypertier.router.access.keys import KeyRing
from hypertier.router.access.verdict import Rejected
from hypertier.router.openai import Refusal
from hypertier.router.wire import Request

if TYPE_CHECKING:  # it brings a library of cryptography, which a router without JWTs needs not
    from hypertier.router.access.jwt import JwtVerifier

CREDENTIALS = (b"authorization", b"x-api-key")
_SPELLINGS = {
    b"authorization": (b"Authorization: ", b"authorization: "),
    b"x-api-key": (b"X-Api-Key: ", b"x-api-key: "),
}


class Identity(NamedTuple):
    """A tenant's name, and the session that its token names."""

    tenant: str
    session: bytes | None = None


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


def identify(request: Request, ring: KeyRing, verifier: JwtVerifier | None, now: float) -> Identity | Unknown:
    """Who asks; `now` is in seconds since 1970. `Authorization` goes before `x-api-key`."""
    fields = request.fields
    if request.repeated and not request.repeated.isdisjoint(CREDENTIALS):
        return unknown("repeated")
    credential = fields.get(b"authorization")
    if credential is not None:
        scheme, _, credential = credential.partition(b" ")
        if scheme.lower() != b"bearer":
            return unknown("scheme")
        credential = credential.strip()
    else:
        credential = fields.get(b"x-api-key")
    if not credential:
        return unknown("no_key")
    tenant = ring.tenant(credential, now)
    if tenant is not None:
        return Identity(tenant)
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


def drop_credentials(request: Request) -> None:
    """Take out the header lines that say who asks: that ends at the router, no engine needs it.

    Each stands there at most once, or nobody was identified; as most clients spell it, or it is searched for.
    """
    forwarded = request.forwarded
    for name, spellings in _SPELLINGS.items():
        value = request.fields.get(name)
        if value is None:
            continue
        for spelling in spellings:
            line = spelling + value + b"\r\n"
            if line in forwarded:
                forwarded.remove(line)
                break
        else:
            forwarded[:] = [line for line in forwarded if line.partition(b":")[0].lower() != name]
