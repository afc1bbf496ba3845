"""A router in this process, on free ports of loopback, in front of fake engines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fakes_engine import FakeEngine

from hypertier.router.app import Router
from hypertier.router.replicas import Replica, ReplicaSet
from hypertier.router.settings import Address, RouterSettings


@asynccontextmanager
async def routed(*engines: FakeEngine, **settings: Any) -> AsyncIterator[Router]:
    """Start the engines and a router before them; end all of it afterwards."""
    for engine in engines:
        await engine.start()
    listed: dict[str, Any] = {"replicas": tuple(engine.url for engine in engines), "strategy": "roundrobin"}
    router = Router(RouterSettings(listen="127.0.0.1:0", **(listed | settings)))
    await router.start()
    try:
        yield router
    finally:
        await router.stop()
        for engine in engines:
            await engine.kill()


def healthy_replicas(count: int) -> tuple[ReplicaSet, Sequence[Replica]]:
    """That many replicas, admitted, nothing in flight."""
    replicas = ReplicaSet()
    replicas.replace(Address(f"10.0.0.{number}", 8000) for number in range(1, count + 1))
    for replica in list(replicas.by_url.values()):
        replicas.admit(replica)
    return replicas, replicas.healthy
