"""What values are called in L2: `ht1:NAMESPACE:KEY:STRIPE`, and `ht1:NAMESPACE:facts` for what it stands for.

No name has a hash tag, so a cluster spreads the stripes of a chunk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PATTERN = b"ht1:*"
_ENTRY = re.compile(rb"ht1:([0-9a-f]{32}):([0-9a-f]{2,512}):(\d{1,6})")
_FACTS = re.compile(rb"ht1:([0-9a-f]{32}):facts")


@dataclass(frozen=True)
class EntryName:
    """Of one stripe of a chunk; `key` is vLLM's."""

    namespace: bytes
    key: bytes
    stripe: int


def entry_name(namespace: bytes, key: bytes, stripe: int) -> bytes:
    """The name of a stripe."""
    return b"ht1:%s:%s:%d" % (namespace.hex().encode(), key.hex().encode(), stripe)


def facts_name(namespace: bytes) -> bytes:
    """The name under which a namespace is described."""
    return b"ht1:%s:facts" % namespace.hex().encode()


def parse_entry_name(name: bytes) -> EntryName | None:
    """Read the name of a stripe, None if it is none."""
    match = _ENTRY.fullmatch(name)
    if match is None or len(match[2]) % 2:
        return None
    return EntryName(bytes.fromhex(match[1].decode()), bytes.fromhex(match[2].decode()), int(match[3]))


def parse_facts_name(name: bytes) -> bytes | None:
    """The namespace that a name's value describes, None if it describes none."""
    match = _FACTS.fullmatch(name)
    return bytes.fromhex(match[1].decode()) if match else None
