"""The header that lets a stored chunk prove what it is.

Sixty-four bytes, little endian, in front of the chunk's first stripe:

    magic 4 | version 1 | algorithm 1 | stripes 2 | length 8 | namespace 16 | key 16 | payload checksum 8 |
    own checksum 8

Checksums find accidents, not attackers: who may write L2 is a matter of its access list.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from enum import Enum

import xxhash

MAGIC = b"HTKV"
VERSION = 2  # of the header and of all that is behind it; part of the namespace, too
XXH3_64 = 1
HEADER_BYTES = 64
_FIELDS = struct.Struct("<4sBBHQ16s16sQ")
_OWN_CHECKSUM = struct.Struct("<Q")


class Flaw(Enum):
    """Why a stored value is not the chunk that was asked for."""

    FOREIGN = "foreign"  # no header of ours, or one of another version
    HEADER = "header"  # the header is damaged
    NAMESPACE = "namespace"  # another model, layout, or epoch
    KEY = "key"  # another chunk
    LENGTH = "length"  # cut off, too long, or cut into other stripes
    PAYLOAD = "payload"  # the bytes are damaged, or of two writers


def key_digest(namespace: bytes, key: bytes) -> bytes:
    """Sixteen bytes that stand for `key` within `namespace`."""
    return hashlib.blake2b(key, digest_size=16, key=namespace).digest()


def seal(
    namespace: bytes, key: bytes, payload: memoryview, num_stripes: int, *, is_encrypted: bool = False
) -> bytes:
    """Return the header of `payload`: `HEADER_BYTES` bytes. `namespace` is 16 bytes.

    What is encrypted proves itself, so its checksum is left at 0.
    """
    fields = _FIELDS.pack(
        MAGIC,
        VERSION,
        XXH3_64,
        num_stripes,
        len(payload),
        namespace,
        key_digest(namespace, key),
        0 if is_encrypted else checksum(payload),
    )
    return fields + _OWN_CHECKSUM.pack(xxhash.xxh3_64_intdigest(fields))


def header_flaw(header: bytes, namespace: bytes, key: bytes, num_bytes: int, num_stripes: int) -> Flaw | None:
    """Return why `header` cannot be that of `key`, None when it is; `num_bytes` is the payload's length."""
    if len(header) != HEADER_BYTES or header[:4] != MAGIC:
        return Flaw.FOREIGN
    fields, own_checksum = header[: _FIELDS.size], header[_FIELDS.size :]
    if _OWN_CHECKSUM.unpack(own_checksum)[0] != xxhash.xxh3_64_intdigest(fields):
        return Flaw.HEADER
    _, version, algorithm, stripes, length, its_namespace, its_key, _ = _FIELDS.unpack(fields)
    if (version, algorithm) != (VERSION, XXH3_64):
        return Flaw.FOREIGN
    if its_namespace != namespace:
        return Flaw.NAMESPACE
    if its_key != key_digest(namespace, key):
        return Flaw.KEY
    if (length, stripes) != (num_bytes, num_stripes):
        return Flaw.LENGTH
    return None


def payload_flaw(header: bytes, found: int) -> Flaw | None:
    """Return why a payload with the checksum `found` is not what the flawless `header` was made for."""
    expected = _FIELDS.unpack(header[: _FIELDS.size])[-1]
    return None if found == expected else Flaw.PAYLOAD


class PartsChecksum:
    """The checksum of a payload that comes in stripes, and each of these in parts, behind `header`.

    A stripe may be begun again; it counts when it has ended.
    """

    def __init__(self, header: bytearray) -> None:
        self._header = header
        self._before = self._now = xxhash.xxh3_64()

    def begin(self) -> Callable[[memoryview], None]:
        """A stripe comes; tell what this returns of its parts."""
        self._now = now = self._before.copy()

        def tell(part: memoryview) -> None:
            if part.obj is not self._header:
                now.update(part)

        return tell

    def end(self) -> None:
        """The stripe is whole."""
        self._before = self._now

    @property
    def value(self) -> int:
        """Of all stripes that have ended."""
        return self._before.intdigest()


def checksum(payload: memoryview) -> int:
    """The xxh3 of megabytes. `update` lets other threads run meanwhile; digesting in one call does not."""
    digest = xxhash.xxh3_64()
    digest.update(payload)
    return digest.intdigest()
