"""Finding replicas and routers: by Kubernetes' EndpointSlices, or by name."""

from __future__ import annotations

import os
import time
from typing import Protocol

from hypertier.router.discovery.addresses import Address, Service
from hypertier.router.discovery.api_server import in_cluster
from hypertier.router.discovery.dns_discovery import DnsDiscovery
from hypertier.router.discovery.slice_discovery import SliceDiscovery
from hypertier.router.replicas.replicas import Listed
from hypertier.router.telemetry.metrics import DiscoveryCounts


class Discovery(Protocol):
    """Keeps a list in step with what tells it."""

    async def step(self) -> None:
        """Ask once and apply the answer."""
        ...

    async def run(self) -> None:
        """Go on asking, until cancelled."""
        ...


def discover(
    setting: str,
    source: Address | Service,
    listed: Listed,
    counts: DiscoveryCounts,
    *,
    interval_seconds: float,
) -> Discovery:
    """What keeps `listed` in step with `source`; DNS is asked each `interval_seconds`.

    Raises:
        ConfigError: the cluster's API can't be asked from here; names `setting`.
    """
    if isinstance(source, Service):
        server = in_cluster(setting, source, os.environ)
        return SliceDiscovery(server, source, listed, counts, now=time.monotonic)
    return DnsDiscovery(source, listed, counts, interval_seconds=interval_seconds)
