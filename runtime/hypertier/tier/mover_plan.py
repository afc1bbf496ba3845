"""What a mover is made of, in a form that another process can be given."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypertier.tier.backends.backend import Backend
from hypertier.tier.backends.choose import choose_backend, choose_ledger, stripe_bytes
from hypertier.tier.cipher import OVERHEAD_BYTES, read_cipher
from hypertier.tier.credentials import credential_source
from hypertier.tier.entries import Entries
from hypertier.tier.entry import HEADER_BYTES, VERSION
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import ThreadMover
from hypertier.tier.namespace import Namespace, model_fingerprint
from hypertier.tier.settings import TierSettings
from hypertier.tier.tenants import OTHERS_NAME, Tenants, tenant_tag
from hypertier.tier.transfers import Transfers
from hypertier.tier.upkeep import Upkeep

GATHER_SECONDS = 2.0  # how long upkeep may be put off: a thread that wakes takes the interpreter's lock
GATHER_RATIO = 1 / 16  # of the shortest life, at most
LEDGER_GATHER_SECONDS = 0.25  # where tenants have quotas, which they may exceed meanwhile


@dataclass(frozen=True)
class MoverPlan:
    """Settings, and what is known of the engine: its model's name, the facts of its namespace.

    What the environment holds, credentials and the key of encryption, is read from there by each process.
    """

    settings: TierSettings
    model: str
    facts: Mapping[str, Any]
    chunk_bytes: int


def build_entries(plan: MoverPlan, hash_root: Callable[[], bytes]) -> tuple[Backend, Entries]:
    """Compose what reads and writes chunks; it connects when first used.

    Raises:
        ConfigError: a setting, or a variable of the environment, that cannot work.
    """
    settings, size = plan.settings, plan.chunk_bytes
    cipher = read_cipher(os.environ)
    stripes = stripe_bytes(settings, size, HEADER_BYTES + OVERHEAD_BYTES)
    facts = {
        **plan.facts,
        "entry": VERSION,
        "namespace": settings.namespace,
        "epoch": settings.epoch,
        "stripe_bytes": stripes,
    }
    backend = choose_backend(settings, credential_source(os.environ, settings.address.host))
    tenants = Tenants(settings.tenants)
    entries = Entries(
        backend,
        Namespace(
            facts,
            lambda: model_fingerprint(plan.model, settings.revision, os.environ),
            hash_root,
            {"model": plan.model, "kept": described_terms(settings)},
            os.environ.get("PYTHONHASHSEED"),
            lambda: cipher.key_id if cipher else "",
        ),
        chunk_bytes=size,
        ttl_seconds=settings.ttl_seconds,
        lookup_timeout_seconds=settings.lookup_deadline_ms / 1000,
        io_timeout_seconds=settings.io_timeout_ms / 1000,
        stripe_bytes=stripes,
        cipher=cipher,
        tenants=tenants,
    )
    tenants.check_room(entries.entry_bytes, "secondary_tiers.tenants")
    return backend, entries


def described_terms(settings: TierSettings) -> dict[str, Any]:
    """How long chunks are kept, and for whom, for people who look at L2."""
    tenants = {
        tenant_tag(name).hex(): {"name": name, "ttl_seconds": terms.ttl_seconds or settings.ttl_seconds}
        for name, terms in settings.tenants.items()
        if name != OTHERS_NAME
    }
    others = settings.tenants.get(OTHERS_NAME)
    return {
        "ttl_seconds": settings.ttl_seconds,
        "others_ttl_seconds": others.ttl_seconds if others else None,
        "tenants": tenants,
    }


def build_upkeep(
    plan: MoverPlan,
    hash_root: Callable[[], bytes],
    counters: Counters,
    on_change: Callable[[str, Exception | None], None],
) -> Upkeep | None:
    """Compose upkeep, with a connection of its own; None where a store does what it likes."""
    backend, entries = build_entries(plan, hash_root)
    ledger = choose_ledger(backend)
    if ledger is None:
        backend.close()
        return None
    timeout_seconds = plan.settings.io_timeout_ms / 1000
    tenants = Tenants(plan.settings.tenants)
    return Upkeep(
        entries,
        tenants,
        counters,
        on_change,
        ledger,
        timeout_seconds,
        gather_seconds=gather_seconds(plan.settings),
    )


def gather_seconds(settings: TierSettings) -> float:
    """How long upkeep is put off, so that what comes meanwhile is done in one go."""
    if any(terms.quota_bytes is not None for terms in settings.tenants.values()):
        return LEDGER_GATHER_SECONDS
    lives = [terms.ttl_seconds or settings.ttl_seconds for terms in settings.tenants.values()]
    return min(GATHER_SECONDS, GATHER_RATIO * min([settings.ttl_seconds, *lives]))


def build_mover(
    plan: MoverPlan,
    l1: memoryview,
    hash_root: Callable[[], bytes],
    counters: Counters,
    on_change: Callable[[str, Exception | None], None],
    on_news: Callable[[], None] = lambda: None,
) -> ThreadMover:
    """Compose a mover whose slots are numbers of chunks of `l1`, bytes of shape [num_chunks * chunk_bytes].

    Raises:
        ConfigError: a setting, or a variable of the environment, that cannot work.
    """
    settings, size = plan.settings, plan.chunk_bytes
    _, entries = build_entries(plan, hash_root)
    return ThreadMover(
        entries,
        Transfers(settings.connections, settings.max_store_backlog_bytes, on_finished=on_news),
        counters,
        on_change,
        slot_of=lambda number: l1[number * size : (number + 1) * size],
        on_news=on_news,
    )
