"""The keys that JWTs are signed with: read from a JWK Set, fetched beside the way of requests."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from hypertier.errors import HttpError, JwksError
from hypertier.http_client import ask_url

log = logging.getLogger("hypertier.router")

MAX_BYTES = 2**20
MAX_KEYS = 256
FETCH_SECONDS = 5.0
"""All of a fetch, however slowly it comes."""
MIN_RSA_BITS = 2048  # NIST SP 800-131A Rev. 2, table 2
_OF_CURVE = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",), "Ed25519": ("EdDSA",)}
_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class SigningKey(NamedTuple):
    """A public key, and the algorithms that it may be used with."""

    public: Any
    algorithms: tuple[str, ...]


SigningKeys = dict[str | None, tuple[SigningKey, ...]]
"""By `kid`; None for keys without one. While a key is changed there may be several of one name."""


def parse(text: bytes, allowed: Sequence[str]) -> SigningKeys:
    """The keys of a JWK Set that can check signatures by an `allowed` algorithm; all others are left out.

    Symmetric keys are left out, and RSA keys under 2048 bits. Raises JwksError where nothing is left, or
    where it is no JWK Set.
    """
    try:
        written = json.loads(text)["keys"]
        if not isinstance(written, list) or len(written) > MAX_KEYS:
            raise ValueError(f"keys is no list of at most {MAX_KEYS}")
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise JwksError(f"no JWK Set: {error}") from error
    found: SigningKeys = {}
    for entry in written:
        key = _signing_key(entry, allowed) if isinstance(entry, dict) else None
        if key is not None:
            kid = entry.get("kid")
            name = kid if isinstance(kid, str) else None
            found[name] = (*found.get(name, ()), key)
    if not found:
        raise JwksError(f"none of its {len(written)} keys checks {', '.join(allowed)}")
    return found


def _signing_key(entry: dict[str, Any], allowed: Sequence[str]) -> SigningKey | None:
    if entry.get("use", "sig") != "sig":
        return None
    if entry.get("kty") == "RSA":
        able: tuple[str, ...] = _OF_RSA
    else:
        able = _OF_CURVE.get(str(entry.get("crv")), ())
    if entry.get("alg") is not None:
        able = tuple(algorithm for algorithm in able if algorithm == entry["alg"])
    able = tuple(algorithm for algorithm in able if algorithm in allowed)
    if not able:
        return None
    public = {name: value for name, value in entry.items() if name not in ("d", "p", "q", "dp", "dq", "qi")}
    try:
        key = PyJWK(public, algorithm=able[0]).key
    except (PyJWTError, ValueError, TypeError):
        return None
    if isinstance(key, RSAPublicKey) and key.key_size < MIN_RSA_BITS:
        return None
    return SigningKey(key, able)


def read(place: str) -> bytes:
    """What stands at an https URL, or in a file; waits for it. Raises JwksError.

    Redirects are not followed: they would lead to where nobody allowed.
    """
    if urlsplit(place).scheme not in ("http", "https"):
        try:
            with open(place, "rb") as file:
                return file.read(MAX_BYTES)
        except OSError as error:
            raise JwksError(f"{place}: {error.strerror}") from error
    try:
        status, text = ask_url(place, timeout_seconds=FETCH_SECONDS, max_bytes=MAX_BYTES)
    except HttpError as error:
        raise JwksError(f"{place} {error}") from error
    if status != 200:
        raise JwksError(f"{place} answered with {status}")
    return text
