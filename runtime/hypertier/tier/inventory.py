"""What L2 holds, counted from the names, sizes and times of its values. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypertier.tier.names import parse_entry_name


@dataclass(frozen=True)
class Value:
    """One value as its server tells of it; `expires_seconds` from now, None without a time to live."""

    name: bytes
    num_bytes: int
    expires_seconds: int | None


@dataclass
class NamespaceCount:
    """What one namespace holds, or one tenant in it. `num_chunks` counts proving stripes: chunks that can be
    looked up.
    """

    namespace: bytes
    tenant: bytes | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    num_chunks: int = 0
    num_values: int = 0
    num_bytes: int = 0
    first_expires_seconds: int | None = None
    last_expires_seconds: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The count as JSON has it."""
        return {
            "namespace": self.namespace.hex(),
            "model": self.facts.get("model"),
            "label": self.facts.get("namespace"),
            "epoch": self.facts.get("epoch"),
            "chunks": self.num_chunks,
            "values": self.num_values,
            "bytes": self.num_bytes,
            "first_expires_seconds": self.first_expires_seconds,
            "last_expires_seconds": self.last_expires_seconds,
        }


def count(
    values: Iterable[Value], facts: Mapping[bytes, Mapping[str, Any]], *, by_tenant: bool = False
) -> list[NamespaceCount]:
    """Count values by namespace, or by namespace and tenant, the largest first."""
    counts: dict[tuple[bytes, bytes | None], NamespaceCount] = {}
    for value in values:
        name = parse_entry_name(value.name)
        if name is None:
            continue
        group = name.namespace, name.tenant if by_tenant else None
        if group not in counts:
            counts[group] = NamespaceCount(*group, facts.get(name.namespace, {}))
        found = counts[group]
        found.num_chunks += name.stripe == 0
        found.num_values += 1
        found.num_bytes += value.num_bytes
        if value.expires_seconds is not None:
            times = [value.expires_seconds, found.first_expires_seconds, found.last_expires_seconds]
            known = [time for time in times if time is not None]
            found.first_expires_seconds, found.last_expires_seconds = min(known), max(known)
    return sorted(counts.values(), key=lambda each: (-each.num_bytes, each.namespace, each.tenant or b""))


def read_facts(stored: bytes | None) -> dict[str, Any]:
    """Read a description; empty where there is none that can be read."""
    try:
        facts = json.loads(stored or b"{}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def differences(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The facts in which several namespaces differ, each with its value by namespace.

    How long chunks are kept is told of a namespace, and keeps none apart.
    """
    names = sorted({name for each in facts.values() for name in each} - {"kept"})
    tables = {name: {namespace: each.get(name) for namespace, each in facts.items()} for name in names}
    return {name: table for name, table in tables.items() if len({json.dumps(v) for v in table.values()}) > 1}
