"""The replicas that prefill alone: found, asked for their health, and chosen by an index of their own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable

from hypertier.router.discovery.addresses import (
    Address,
    Service,
    parse_prefill_discover,
    parse_prefill_replica,
)
from hypertier.router.http.tls import EngineTls
from hypertier.router.picking import Picker
from hypertier.router.prefill.prefill import Prefillers
from hypertier.router.replicas.cache_sizes import CacheSizes
from hypertier.router.replicas.health import HealthChecks
from hypertier.router.replicas.outliers import Outliers
from hypertier.router.replicas.replicas import Listed, ReplicaSet
from hypertier.router.replicas.sizing import Sizing
from hypertier.router.settings import RouterSettings
from hypertier.router.strategies import build
from hypertier.router.strategies.strategy import Strategy

Follow = Callable[[str, Address | Service, Listed, str], Awaitable[None]]
"""Keeps a list in step: by the setting that names its source, the source, the list, and what it lists."""


class PrefillSide:
    """Has the `prefillers` of a router; `sizes` are those of its other replicas, too.

    What is sent there is told to other routers by what `share` makes of the strategy.
    """

    def __init__(
        self,
        settings: RouterSettings,
        sizes: CacheSizes,
        *,
        tls: EngineTls | None,
        failures: Counter[str],
        share: Callable[[Strategy, ReplicaSet], Strategy] = lambda strategy, replicas: strategy,
    ) -> None:
        self._settings = settings
        replicas = ReplicaSet(tls=tls)
        self.sizing = Sizing(replicas, sizes, failures=failures)
        self._health = HealthChecks(
            replicas,
            interval_seconds=settings.health_interval_seconds,
            timeout_seconds=settings.health_timeout_seconds,
            failures=failures,
        )
        strategy = build(
            "prefixaware",
            replicas=replicas,
            index_bytes=settings.index_bytes,
            sizes=sizes,
            now=time.monotonic,
        )
        self.prefillers = Prefillers(
            replicas,
            Picker(share(strategy, replicas), replicas),
            threshold_tokens=settings.threshold_tokens,
            bytes_per_token=lambda: sizes.bytes_per_token,
            timeout_seconds=settings.response_timeout_seconds,
            connect_seconds=settings.connect_timeout_seconds,
            suspect=self._health.suspect,
            outliers=Outliers(
                replicas,
                stall_seconds=settings.stall_timeout_seconds,
                now=time.monotonic,
                without_any=True,
            ),
            now=time.monotonic,
        )

    async def start(self, follow: Follow) -> None:
        """List them, and follow their list, where the settings say so; then ask each for its health."""
        settings, replicas = self._settings, self.prefillers.replicas
        if settings.prefill_discover is not None:
            source = parse_prefill_discover(settings.prefill_discover)
            await follow("--prefill-discover", source, replicas, "prefillers")
        else:
            replicas.replace(parse_prefill_replica(url) for url in settings.prefill_replicas)
        await self._health.first_round()

    async def stop(self) -> None:
        """Ask no more, and forget them."""
        await self._health.stop()
        await self.sizing.stop()
        self.prefillers.replicas.replace([])
