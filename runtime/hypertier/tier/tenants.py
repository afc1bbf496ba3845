"""Tenants of L2: whom vLLM's `cache_salt` keeps apart, and how much and how long each may keep. Pure.

A tenant is known by a tag, the first `TAG_BYTES` of its chunks' keys. The router writes a salt that begins
with its tenant's tag, in hex and before a dot; any other salt is taken for the tenant's name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hypertier.errors import ConfigError

TAG_BYTES = 8
UNSALTED = bytes(TAG_BYTES)
UNSALTED_NAME = "-"
OTHERS_NAME = "*"
_TAGGED = re.compile(r"([0-9a-f]{16})\..+", re.DOTALL)


@dataclass(frozen=True)
class Terms:
    """What a tenant may keep in one namespace; None: the tier's `ttl_seconds`, and no limit.

    `quota_bytes` counts values as they are stored, headers included; 0 stores nothing.
    """

    ttl_seconds: int | None = None
    quota_bytes: int | None = None


LONGEST_TTL_SECONDS = 10 * 365 * 86_400  # Valkey refuses to keep anything for some hundred million years

SMALLEST = {"ttl_seconds": 1, "quota_bytes": 0}
LARGEST = {"ttl_seconds": LONGEST_TTL_SECONDS}


def tenant_tag(name: str) -> bytes:
    """The tag of a tenant: `TAG_BYTES` bytes."""
    if name == UNSALTED_NAME:
        return UNSALTED
    return hashlib.sha256(b"hypertier tenant\0" + name.encode()).digest()[:TAG_BYTES]


def tag_of_salt(salt: str | None) -> bytes:
    """The tag of the tenant whose request has this `cache_salt`."""
    if not salt:
        return UNSALTED
    tagged = _TAGGED.fullmatch(salt)
    return bytes.fromhex(tagged[1]) if tagged else tenant_tag(salt)


def tag_of_key(key: bytes) -> bytes:
    """The tag of the tenant whose chunk has this key."""
    return key[:TAG_BYTES]


class Tenants:
    """Terms by a chunk's key. `named` are those given by a tenant's name.

    `*` stands for every salted tenant without terms of its own, `-` for requests without a salt.
    """

    def __init__(self, named: Mapping[str, Terms] | None = None) -> None:
        self._named = dict(named or {})
        self._others = self._named.get(OTHERS_NAME, Terms())
        self._by_tag = {UNSALTED: Terms()} | {
            tenant_tag(name): terms for name, terms in self._named.items() if name != OTHERS_NAME
        }

    def terms(self, key: bytes) -> Terms:
        """What the tenant of this key may keep."""
        return self._by_tag.get(key[:TAG_BYTES], self._others)

    def check_room(self, entry_bytes: int, setting: str) -> None:
        """Refuse a quota in which not one chunk of `entry_bytes` finds room.

        Raises:
            ConfigError: there is one.
        """
        for name, terms in self._named.items():
            quota = terms.quota_bytes
            if quota is not None and 0 < quota < entry_bytes:
                raise ConfigError(
                    f"{setting}.{name}.quota_bytes",
                    quota,
                    f"{entry_bytes} or more, one chunk of this engine, or 0 to store nothing",
                )


def read_tenants(config: Any, setting: str) -> dict[str, Terms]:
    """Check the terms of tenants, by name.

    Raises:
        ConfigError: no object of objects, an unknown key, or a number that cannot work.
    """
    return {name: _read_terms(terms, f"{setting}.{name}") for name, terms in _items(config, setting)}


def _read_terms(config: Any, setting: str) -> Terms:
    for key, value in _items(config, setting):
        if key not in SMALLEST:
            raise ConfigError(f"{setting}.{key}", value, f"one of {', '.join(sorted(SMALLEST))}")
        if not isinstance(value, int) or isinstance(value, bool) or value < SMALLEST[key]:
            raise ConfigError(f"{setting}.{key}", value, f"a whole number, {SMALLEST[key]} or more")
        if value > LARGEST.get(key, value):
            raise ConfigError(f"{setting}.{key}", value, f"a whole number, {SMALLEST[key]} to {LARGEST[key]}")
    return Terms(**config)


def _items(config: Any, setting: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(config, Mapping) or not all(isinstance(key, str) and key for key in config):
        raise ConfigError(setting, config, "an object with a tenant's name, or a setting's, as each key")
    return config.items()
