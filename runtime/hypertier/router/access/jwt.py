"""JWTs: checked once with a key of the issuer's, and known by their hash from then on."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from hypertier.router.access.jwks import SigningKey, SigningKeys
from hypertier.router.access.verdict import Rejected, Verified
from hypertier.spec.access import TENANT, Jwt

MAX_KNOWN = 16_384
"""Verified tokens kept: some 400 bytes each. What was used longest ago goes first."""
MAX_TOKEN_BYTES = 16 * 1024
MAX_TRIED = 4
"""Keys that a token is tried with where it does not say which: who signs with none would cost as much."""
_OF_ANOTHER_KEY = ("algorithm", "signature")


class JwtVerifier:
    """Checks what `settings` ask for: signature, issuer, audience, expiry (which must be there), not-before.

    A signature costs 30 to 150 µs to check, a token that is known 2. New keys make all tokens unknown, so
    that one signed with a withdrawn key is refused from then on.
    """

    def __init__(self, settings: Jwt, session_claim: str | None = None) -> None:
        self._settings = settings
        self._session_claim = session_claim
        self._keys: SigningKeys = {}
        self._known: OrderedDict[bytes, Verified] = OrderedDict()

    @property
    def has_keys(self) -> bool:
        """There is at least one key to check with."""
        return bool(self._keys)

    @property
    def num_known(self) -> int:
        """Tokens that need no checking."""
        return len(self._known)

    def use(self, keys: SigningKeys) -> None:
        """Check with these from now on."""
        self._keys = keys
        self._known.clear()

    def verify(self, token: bytes, now: float) -> Verified | Rejected:
        """Who the token speaks for; `now` is in seconds since 1970."""
        digest = hashlib.sha256(token).digest()
        known = self._known.get(digest)
        if known is not None:
            if now < known.until:
                self._known.move_to_end(digest)
                return known
            del self._known[digest]
            return Rejected("expired")
        verified = self._check(token, now)
        if isinstance(verified, Verified):
            self._known[digest] = verified
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return verified

    def _check(self, token: bytes, now: float) -> Verified | Rejected:
        if len(token) > MAX_TOKEN_BYTES:
            return Rejected("malformed")
        try:
            kid = jwt.get_unverified_header(token).get("kid")
        except (PyJWTError, RecursionError, ValueError):  # JSON may be nested without end
            return Rejected("malformed")
        keys = self._keys_of(kid)
        if not keys:
            return Rejected("unknown_key")
        found: Verified | Rejected = Rejected("unknown_key")
        for key in keys:
            found = self._check_by(key, token, now)
            if not isinstance(found, Rejected) or found.cause not in _OF_ANOTHER_KEY:
                break
        return found

    def _check_by(self, key: SigningKey, token: bytes, now: float) -> Verified | Rejected:
        settings = self._settings
        try:
            # Times are checked below, by the router's clock and not the library's own.
            claims = jwt.decode(
                token,
                key.public,
                algorithms=list(key.algorithms),
                audience=settings.audience,
                issuer=settings.issuer,
                options={
                    "require": ["exp", "aud", "iss"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.InvalidAudienceError:
            return Rejected("audience")
        except jwt.InvalidIssuerError:
            return Rejected("issuer")
        except jwt.InvalidAlgorithmError:
            return Rejected("algorithm")
        except jwt.InvalidSignatureError:
            return Rejected("signature")
        except (PyJWTError, RecursionError, ValueError, TypeError):
            return Rejected("malformed")
        return self._read(claims, now)

    def _keys_of(self, kid: Any) -> Sequence[SigningKey]:
        """Those that a token may be signed with: of its `kid`, or, where it names none, any of a few."""
        if kid is None and None not in self._keys:
            every = [key for keys in self._keys.values() for key in keys]
        else:
            every = list(self._keys.get(kid, ())) if isinstance(kid, str | None) else []
        return every if len(every) <= MAX_TRIED else ()

    def _read(self, claims: dict[str, Any], now: float) -> Verified | Rejected:
        settings = self._settings
        leeway = settings.leeway_seconds
        until, begins = _time(claims.get("exp")), _time(claims.get("nbf", 0))
        if until is None or begins is None:
            return Rejected("malformed")
        if now >= until + leeway:
            return Rejected("expired")
        if now < begins - leeway:
            return Rejected("not_yet_valid")
        tenant = claims.get(settings.tenant_claim)
        if not isinstance(tenant, str) or not TENANT.fullmatch(tenant):
            return Rejected("tenant")
        session = claims.get(self._session_claim) if self._session_claim else None
        # JSON can spell half a surrogate pair, and a claim of its client's choice may have one.
        named = session.encode("utf-8", "surrogatepass") if isinstance(session, str) else None
        return Verified(tenant, until + leeway, named)


def _time(value: Any) -> float | None:
    """Seconds since 1970, where it is that."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e15 else None
