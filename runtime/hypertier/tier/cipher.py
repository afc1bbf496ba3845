"""Encryption of chunks, so that who can read L2 cannot read prompts out of keys and values.

AES-256-GCM. Each chunk has a key of its own, derived from one master key, the namespace and vLLM's hash of
the prompt, which covers the tenant's salt.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import importlib.util
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hypertier.errors import ConfigError, MissingPackageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_VARIABLE = "HYPERTIER_L2_KEY"
KEY_BYTES = 32
NONCE_BYTES = 12
OVERHEAD_BYTES = NONCE_BYTES + 16  # in front the nonce, behind it the ciphertext and its tag
EXPECTED = "32 random bytes in base64, as of `openssl rand -base64 32`"


class ChunkCipher:
    """Encrypts and decrypts chunks under a master key of `KEY_BYTES`. Used by many threads."""

    def __init__(self, master_key: bytes) -> None:
        self._master_key = master_key

    @property
    def key_id(self) -> str:
        """Tells master keys apart and gives nothing away; engines with different ones do not share blocks."""
        return hmac.new(self._master_key, b"hypertier key id", hashlib.sha256).hexdigest()[:16]

    def encrypt(self, namespace: bytes, key: bytes, payload: memoryview) -> memoryview:
        """Return the encrypted payload, `OVERHEAD_BYTES` longer."""
        sealed = bytearray(len(payload) + OVERHEAD_BYTES)
        nonce = os.urandom(NONCE_BYTES)
        sealed[:NONCE_BYTES] = nonce
        view = memoryview(sealed)
        self._cipher(namespace, key).encrypt_into(nonce, payload, None, view[NONCE_BYTES:])
        return view

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

        return AESGCM(hmac.new(self._master_key, b"chunk" + namespace + key, hashlib.sha256).digest())


def read_cipher(environ: Mapping[str, str]) -> ChunkCipher | None:
    """The cipher that `HYPERTIER_L2_KEY` asks for, None where it is not set.

    Raises:
        ConfigError: it is no key; the message does not repeat it.
        MissingPackageError: the package cryptography is not installed.
    """
    text = environ.get(KEY_VARIABLE, "")
    if not text:
        return None
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(KEY_VARIABLE, "***", EXPECTED)
    if importlib.util.find_spec("cryptography") is None:
        raise MissingPackageError(KEY_VARIABLE, "cryptography", "engine")
    return ChunkCipher(key)
