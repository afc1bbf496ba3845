"""What each worker is told to be, from what the operator asked of the router. Values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypertier.router.discovery.addresses import Address
from hypertier.router.settings import RouterSettings

LOOPBACK = "127.0.0.1"


def shares_news(settings: RouterSettings) -> bool:
    """Workers tell one another what they have in flight: all but turns ask, and limits are divided by it."""
    return settings.strategy != "roundrobin" or settings.access is not None or settings.routes is not None


def hears_others(settings: RouterSettings) -> bool:
    """There are routers beside this one's workers; they find every worker by its own port."""
    return settings.peer_listen is not None


def peer_address(settings: RouterSettings, slot: int) -> Address:
    """Where routers and workers connect to that one; port 0 where the supervisor says which it got."""
    listen = settings.peer_address
    return Address(LOOPBACK, 0) if listen is None else Address(listen.host, listen.port + slot)


def worker_settings(settings: RouterSettings, slot: int, peers: Sequence[Address]) -> RouterSettings:
    """The settings of one worker, a router by itself; `peers` are where all of them are told, itself too.

    Bodies of all workers together take `max_buffered_bytes`. Each has an index of its own of `index_bytes`,
    for each chooses for itself.
    """
    assert settings.workers is not None
    own = replace(settings, workers=None, max_buffered_bytes=settings.max_buffered_bytes // settings.workers)
    if not peers:
        return own
    listen = str(peers[slot])
    if hears_others(settings):
        return replace(own, peer_listen=listen)
    return replace(own, peer=tuple(map(str, peers)), peer_listen=listen)


def ports_of_a_router(settings: RouterSettings) -> int:
    """In how many ports in a row other routers are told, of which `--peers` and `--peer` name the first."""
    return settings.workers or 1 if hears_others(settings) else 1
