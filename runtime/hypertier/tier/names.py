"""What values are called in L2. No name has a hash tag, so a cluster spreads the stripes of a chunk.

    ht1:NAMESPACE:TENANT:KEY:STRIPE   a stripe of a chunk
    ht1:NAMESPACE:TENANT:ledger       which chunks a tenant with a quota keeps
    ht1:NAMESPACE:facts               what a namespace stands for

All but the numbers of stripes in hex. TENANT is zeros for requests without a salt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypertier.tier.tenants import TAG_BYTES

PATTERN = b"ht1:*"
_ENTRY = re.compile(rb"ht1:([0-9a-f]{32}):([0-9a-f]{16}):([0-9a-f]{2,512}):(\d{1,6})")
_LEDGER = re.compile(rb"ht1:([0-9a-f]{32}):([0-9a-f]{16}):ledger")
_FACTS = re.compile(rb"ht1:([0-9a-f]{32}):facts")


@dataclass(frozen=True)
class EntryName:
    """Of one stripe of a chunk; `key` is the tenant's tag and, behind it, vLLM's key."""

    namespace: bytes
    key: bytes
    stripe: int

    @property
    def tenant(self) -> bytes:
        """The tenant's tag."""
        return self.key[:TAG_BYTES]


def entry_name(namespace: bytes, key: bytes, stripe: int) -> bytes:
    """The name of a stripe; `key` begins with the tenant's tag."""
    tenant, chunk = key[:TAG_BYTES].hex().encode(), key[TAG_BYTES:].hex().encode()
    return b"ht1:%s:%s:%s:%d" % (namespace.hex().encode(), tenant, chunk, stripe)


def ledger_name(namespace: bytes, tenant: bytes) -> bytes:
    """The name under which a tenant's chunks are listed."""
    return b"ht1:%s:%s:ledger" % (namespace.hex().encode(), tenant.hex().encode())


def facts_name(namespace: bytes) -> bytes:
    """The name under which a namespace is described."""
    return b"ht1:%s:facts" % namespace.hex().encode()


def parse_entry_name(name: bytes) -> EntryName | None:
    """Read the name of a stripe, None if it is none."""
    match = _ENTRY.fullmatch(name)
    if match is None or len(match[3]) % 2:
        return None
    namespace, key = (bytes.fromhex(part.decode()) for part in (match[1], match[2] + match[3]))
    return EntryName(namespace, key, int(match[4]))


def parse_ledger_name(name: bytes) -> tuple[bytes, bytes] | None:
    """The namespace and the tenant's tag of a ledger, None if the name is none's."""
    match = _LEDGER.fullmatch(name)
    return (bytes.fromhex(match[1].decode()), bytes.fromhex(match[2].decode())) if match else None


def parse_facts_name(name: bytes) -> bytes | None:
    """The namespace that a name's value describes, None if it describes none."""
    match = _FACTS.fullmatch(name)
    return bytes.fromhex(match[1].decode()) if match else None
