"""An issuer of JWTs, with keys of its own."""

from __future__ import annotations

import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW = 1_800_000_000.0
ISSUER = "https://issuer.example"
AUDIENCE = "inference"


class Issuer:
    """Signs with one key, whose public half is in `jwks`."""

    def __init__(self, algorithm: str = "ES256", kid: str | None = "k1", rsa_bits: int = 2048) -> None:
        self.algorithm = algorithm
        self.kid = kid
        if algorithm[:2] in ("RS", "PS"):
            self.key: Any = rsa.generate_private_key(public_exponent=65537, key_size=rsa_bits)
            self.public = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        elif algorithm == "EdDSA":
            self.key = ed25519.Ed25519PrivateKey.generate()
            self.public = json.loads(OKPAlgorithm.to_jwk(self.key.public_key()))
        else:
            curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
            self.key = ec.generate_private_key(curves[algorithm])
            self.public = json.loads(ECAlgorithm.to_jwk(self.key.public_key()))
        if kid is not None:
            self.public["kid"] = kid

    def jwks(self, *others: Issuer, **changes: Any) -> bytes:
        """The JWK Set of this issuer's key and the others'; `changes` are made to its own."""
        return json.dumps({"keys": [self.public | changes, *(other.public for other in others)]}).encode()

    def token(
        self,
        *,
        algorithm: str | None = None,
        key: Any = None,
        names_key: bool = True,
        **changes: Any,
    ) -> bytes:
        """A token of acme that is valid for an hour from `NOW`; a change to None leaves a claim out."""
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "acme", "exp": int(NOW) + 3600} | changes
        headers = {"kid": self.kid} if self.kid is not None and names_key else {}
        written = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(
            written, key if key is not None else self.key, algorithm or self.algorithm, headers
        ).encode()
