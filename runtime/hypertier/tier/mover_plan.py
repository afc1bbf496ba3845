"""What a mover is made of, in a form that another process can be given."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypertier.tier.backends.choose import choose_backend, stripe_bytes
from hypertier.tier.cipher import OVERHEAD_BYTES, read_cipher
from hypertier.tier.credentials import credential_source
from hypertier.tier.entries import Entries
from hypertier.tier.entry import HEADER_BYTES
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import ThreadMover
from hypertier.tier.namespace import Namespace, model_fingerprint
from hypertier.tier.settings import TierSettings
from hypertier.tier.transfers import Transfers


@dataclass(frozen=True)
class MoverPlan:
    """Settings, and what is known of the engine: its model's name, the facts of its namespace.

    What the environment holds, credentials and the key of encryption, is read from there by each process.
    """

    settings: TierSettings
    model: str
    facts: Mapping[str, Any]
    chunk_bytes: int


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
    cipher = read_cipher(os.environ)
    stripes = stripe_bytes(settings, size, HEADER_BYTES + OVERHEAD_BYTES)
    facts = {
        **plan.facts,
        "namespace": settings.namespace,
        "epoch": settings.epoch,
        "stripe_bytes": stripes,
        "key": cipher.key_id if cipher else "",
    }
    entries = Entries(
        choose_backend(settings, credential_source(os.environ)),
        Namespace(
            facts,
            lambda: model_fingerprint(plan.model, settings.revision, os.environ),
            hash_root,
            {"model": plan.model},
        ),
        chunk_bytes=size,
        ttl_seconds=settings.ttl_seconds,
        lookup_timeout_seconds=settings.lookup_deadline_ms / 1000,
        io_timeout_seconds=settings.io_timeout_ms / 1000,
        stripe_bytes=stripes,
        cipher=cipher,
    )
    return ThreadMover(
        entries,
        Transfers(settings.connections, settings.max_store_backlog_bytes, on_finished=on_news),
        counters,
        on_change,
        slot_of=lambda number: l1[number * size : (number + 1) * size],
        on_news=on_news,
    )
