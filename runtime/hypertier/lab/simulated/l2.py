"""L2 of a simulated engine: the same code as in vLLM, under a namespace of its own."""

from __future__ import annotations

from hypertier.lab.simulated.prompt import ROOT
from hypertier.lab.simulated.settings import EngineSettings
from hypertier.tier.backends.backend import Backend
from hypertier.tier.cache import L2Cache
from hypertier.tier.entries import Entries
from hypertier.tier.lookups import Verdicts
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import ThreadMover
from hypertier.tier.namespace import Namespace
from hypertier.tier.settings import TierSettings
from hypertier.tier.transfers import Transfers


def build_l2(settings: EngineSettings, tier: TierSettings, backend: Backend, counters: Counters) -> L2Cache:
    """Compose the tier, and connect in the background."""
    facts = {
        "engine": "simulated",
        "block_size": settings.block_size,
        "chunk_bytes": settings.block_bytes,
        "stripe_bytes": tier.stripe_bytes,
        "namespace": tier.namespace,
        "epoch": tier.epoch,
    }
    entries = Entries(
        backend,
        Namespace(facts, lambda: settings.name, lambda: ROOT),
        chunk_bytes=settings.block_bytes,
        ttl_seconds=tier.ttl_seconds,
        lookup_timeout_seconds=tier.lookup_deadline_ms / 1000,
        io_timeout_seconds=tier.io_timeout_ms / 1000,
        stripe_bytes=tier.stripe_bytes,
    )
    transfers = Transfers(tier.connections, tier.max_store_backlog_bytes)
    cache = L2Cache(
        ThreadMover(entries, transfers, counters, log_change),
        Verdicts(tier.lookup_deadline_ms / 1000, counters),
        counters,
    )
    cache.warm_up()
    return cache


def log_change(what: str, error: Exception | None) -> None:
    """Write one line when L2 stops answering, and one when it answers again."""
    if error is None:
        print(f"hypertier: L2 answers {what}s again", flush=True)
    else:
        print(
            f"hypertier: L2 failed a {what}, every {what} is a miss: {type(error).__name__}: {error}",
            flush=True,
        )
