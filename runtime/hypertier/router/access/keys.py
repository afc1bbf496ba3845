"""API keys: made once, kept as hashes, found by hash.

A key is 32 random bytes, so nobody guesses it and a plain SHA-256 is enough to keep it: slow hashes
(bcrypt, Argon2) protect what people choose, and would cost each request milliseconds.

A line of the file is `sha256:HEX TENANT [UNTIL]`; `#` begins a comment. A tenant may have any number of keys,
which is how they are changed: add the new one, hand it out, remove the old one or give it an end.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from datetime import UTC, datetime
from typing import NamedTuple

from hypertier.errors import ConfigError
from hypertier.spec.access import TENANT, TENANT_FORM

PREFIX = "sk-ht-"
"""What scanners for leaked secrets can look for."""
MAX_FILE_BYTES = 16 * 2**20
_LINE = re.compile(r"sha256:([0-9a-f]{64})[ \t]+(\S+)(?:[ \t]+(\S+))?")
FORM = "sha256:HEX TENANT [UNTIL], as `hypertier router key new` prints it"


class Key(NamedTuple):
    """What is kept of one. `until` is when it ends, in seconds since 1970; infinity where it does not."""

    digest: bytes
    tenant: str
    until: float


class KeyRing:
    """All keys that are valid or were."""

    def __init__(self, keys: tuple[Key, ...] = ()) -> None:
        self._keys = {key.digest: key for key in keys}

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def tenants(self) -> set[str]:
        """Whose keys they are."""
        return {key.tenant for key in self._keys.values()}

    def find(self, key: bytes, now: float) -> Key | None:
        """What is kept of the key; None for one that is unknown or has ended.

        What takes time depends on the hash alone: who asks learns nothing about keys. The comparison of the
        whole hash takes the same time for every hash.
        """
        digest = hashlib.sha256(key).digest()
        found = self._keys.get(digest)
        if found is None or not hmac.compare_digest(found.digest, digest) or now >= found.until:
            return None
        return found


def new_key() -> str:
    """A key that nobody has: 256 bits at random."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


def line(key: str, tenant: str, until: str | None) -> str:
    """What the file keeps of a key. Raises ConfigError for a tenant or an end that can't be."""
    if not TENANT.fullmatch(tenant) or " " in tenant:
        raise ConfigError("--tenant", tenant, f"{TENANT_FORM}, and none within")
    if until is not None:
        parse_until("--until", until)
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"sha256:{digest} {tenant}" + (f" {until}" if until else "")


def parse(text: str, setting: str, file: str = "") -> KeyRing:
    """Read a file of keys. Raises ConfigError with the number of a line, never what stands there."""
    keys: dict[bytes, Key] = {}
    for number, written in enumerate(text.splitlines(), 1):
        stripped = written.partition("#")[0].strip()
        if not stripped:
            continue
        where = f"{file} line {number}".lstrip()
        found = _LINE.fullmatch(stripped)
        if found is None or not TENANT.fullmatch(found[2]):
            raise ConfigError(setting, where, FORM)
        try:
            until = parse_until(setting, found[3]) if found[3] else float("inf")
        except ConfigError as error:
            raise ConfigError(setting, where, f"{FORM}, UNTIL being {error.expected}") from None
        digest = bytes.fromhex(found[1])
        if digest in keys and keys[digest].tenant != found[2]:
            raise ConfigError(setting, where, "every key once; another tenant has this one")
        keys[digest] = Key(digest, found[2], until)
    return KeyRing(tuple(keys.values()))


def parse_until(setting: str, text: str) -> float:
    """An end, in seconds since 1970: a date, which is its begin in UTC, or a time. Raises ConfigError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(setting, text, "a date or time, such as 2027-01-31 or 2027-01-31T12:00Z") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
