"""Which values of L2 a person means: by namespace, model, tenant, and how long nobody used them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypertier.tier.inventory import Value
from hypertier.tier.names import EntryName, parse_entry_name, parse_facts_name, parse_ledger_name
from hypertier.tier.tenants import UNSALTED, tenant_tag


@dataclass(frozen=True)
class Selection:
    """Empty: everything. `namespaces` and `tags` are what is meant, None for all.

    `keys` are chunks, by namespace and key, None for all. `facts` are what namespaces stand for, by
    namespace; they tell how long a chunk lives, and so how long ago it was last used.
    """

    namespaces: frozenset[bytes] | None = None
    tags: frozenset[bytes] | None = None
    unused_seconds: int | None = None
    keys: frozenset[tuple[bytes, bytes]] | None = None
    facts: Mapping[bytes, Mapping[str, Any]] = field(default_factory=dict)

    def takes_namespace(self, namespace: bytes) -> bool:
        """Whether any of a namespace may be meant."""
        return self.namespaces is None or namespace in self.namespaces

    def takes(self, value: Value) -> bool:
        """Whether a stripe of a chunk is meant."""
        name = parse_entry_name(value.name)
        if name is None or not self.takes_namespace(name.namespace):
            return False
        if self.tags is not None and name.tenant not in self.tags:
            return False
        if self.keys is not None and (name.namespace, name.key) not in self.keys:
            return False
        if self.unused_seconds is None:
            return True
        unused = self._unused(name, value)
        return unused is not None and unused >= self.unused_seconds

    def takes_with_chunks(self, name: bytes) -> bool:
        """Whether a value beside the chunks goes with them: a ledger, and what a namespace stands for."""
        if self.unused_seconds is not None or self.keys is not None:
            return False
        if (ledger := parse_ledger_name(name)) is not None:
            namespace, tag = ledger
            return self.takes_namespace(namespace) and (self.tags is None or tag in self.tags)
        described = parse_facts_name(name)
        return described is not None and self.tags is None and self.takes_namespace(described)

    def _unused(self, name: EntryName, value: Value) -> int | None:
        """Seconds since a chunk was stored or last used; None where its namespace is not described."""
        kept = self.facts.get(name.namespace, {}).get("kept")
        if not isinstance(kept, dict) or value.expires_seconds is None:
            return None
        tenants = kept.get("tenants")
        terms = tenants.get(name.tenant.hex()) if isinstance(tenants, dict) else None
        life = terms.get("ttl_seconds") if isinstance(terms, dict) else None
        if life is None and name.tenant != UNSALTED:
            life = kept.get("others_ttl_seconds")
        life = kept.get("ttl_seconds") if life is None else life
        return max(0, life - value.expires_seconds) if isinstance(life, int) else None


def tags_of(names: Sequence[str]) -> frozenset[bytes] | None:
    """The tags of tenants given by name, None where none is given."""
    return frozenset(tenant_tag(name) for name in names) if names else None


def tenant_name(tag: bytes, facts: Mapping[str, Any], asked_for: Sequence[str] = ()) -> str:
    """What a tenant is called: as asked for, or as its terms name it, else its tag."""
    for name in (*asked_for, "-"):
        if tenant_tag(name) == tag:
            return name
    kept = facts.get("kept")
    tenants = kept.get("tenants") if isinstance(kept, dict) else None
    terms = tenants.get(tag.hex()) if isinstance(tenants, dict) else None
    known = terms.get("name") if isinstance(terms, dict) else None
    return known if isinstance(known, str) else tag.hex()
