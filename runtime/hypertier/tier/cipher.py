"""Encryption of chunks, so that who can read L2 cannot read prompts out of keys and values.

AES-256-GCM. Each chunk has a key of its own, derived from one master key, the namespace and vLLM's hash of
the prompt, which covers the tenant's salt.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hypertier.errors import MissingPackageError
from hypertier.tier.encryption_key import KEY_VARIABLE, VARIABLES, KeySource, key_source

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12
OVERHEAD_BYTES = NONCE_BYTES + 16  # in front the nonce, behind it the ciphertext and its tag


class ChunkCipher:
    """Encrypts and decrypts chunks under a master key of 32 bytes. Used by many threads.

    A key that AWS keeps is asked for at the first call; what goes wrong with that, every call raises.
    """

    def __init__(self, master_key: bytes | KeySource) -> None:
        self._master_key: KeySource = master_key if callable(master_key) else lambda: master_key

    @property
    def key_id(self) -> str:
        """Tells master keys apart and gives nothing away; engines with different ones do not share blocks."""
        return hmac.new(self._master_key(), b"hypertier key id", hashlib.sha256).hexdigest()[:16]

    def encrypt_into(self, namespace: bytes, key: bytes, payload: memoryview, sealed: memoryview) -> None:
        """Encrypt into `sealed`, `OVERHEAD_BYTES` longer."""
        sealed[:NONCE_BYTES] = nonce = os.urandom(NONCE_BYTES)
        self._cipher(namespace, key).encrypt_into(nonce, payload, None, sealed[NONCE_BYTES:])

    def decrypt_into(self, namespace: bytes, key: bytes, sealed: memoryview, slot: memoryview) -> bool:
        """Decrypt into `slot`; returns whether it is what was encrypted for this namespace and key."""
        nonce, ciphertext = bytes(sealed[:NONCE_BYTES]), sealed[NONCE_BYTES:]
        from cryptography.exceptions import InvalidTag

        try:
            self._cipher(namespace, key).decrypt_into(nonce, ciphertext, None, slot)
        except InvalidTag:
            return False
        return True

    def _cipher(self, namespace: bytes, key: bytes) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(hmac.new(self._master_key(), b"chunk" + namespace + key, hashlib.sha256).digest())


def read_cipher(environ: Mapping[str, str]) -> ChunkCipher | None:
    """The cipher that the environment asks for, None where it asks for none.

    Raises:
        ConfigError: there is no key in it; the message does not repeat it.
        MissingPackageError: a package is not installed: cryptography, or boto3 for a key that AWS keeps.
    """
    source = key_source(environ)
    if source is None:
        return None
    variable = next(name for name in VARIABLES if environ.get(name))
    for package in ("cryptography", *(("boto3",) if variable != KEY_VARIABLE else ())):
        if importlib.util.find_spec(package) is None:
            raise MissingPackageError(variable, package, "engine")
    return ChunkCipher(source)
