"""A router in this process, on free ports of loopback, in front of fake engines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fakes_engine import FakeEngine

from hypertier.router.admission import Admission
from hypertier.router.api.openai import InferenceRequest
from hypertier.router.app import Router
from hypertier.router.discovery.addresses import Address
from hypertier.router.peers.news import News, Sent
from hypertier.router.picking import Picker
from hypertier.router.replicas.cache_sizes import CacheSizes
from hypertier.router.replicas.models import Models
from hypertier.router.replicas.replicas import Replica, ReplicaSet
from hypertier.router.settings import RouterSettings
from hypertier.router.strategies import build
from hypertier.router.strategies.strategy import Choice


@asynccontextmanager
async def routed(
    *engines: FakeEngine, admission: Admission | None = None, **settings: Any
) -> AsyncIterator[Router]:
    """Start the engines and a router before them; end all of it afterwards."""
    try:
        for engine in engines:
            await engine.start()
        listed: dict[str, Any] = {
            "replicas": tuple(engine.url for engine in engines),
            "strategy": "roundrobin",
            "slow_start_seconds": 0.0,
        }
        router = Router(RouterSettings(listen="127.0.0.1:0", **(listed | settings)), admission=admission)
        await router.start()
        try:
            yield router
        finally:
            await router.stop()
    finally:
        for engine in engines:
            await engine.kill()


def healthy_replicas(count: int) -> tuple[ReplicaSet, Sequence[Replica]]:
    """That many replicas, admitted, nothing in flight."""
    replicas = ReplicaSet()
    replicas.replace(Address(f"10.0.0.{number}", 8000) for number in range(1, count + 1))
    for replica in list(replicas.by_url.values()):
        replicas.admit(replica)
    return replicas, replicas.healthy


class Traffic:
    """Requests through a picker, under a clock that a test moves."""

    def __init__(self, strategy: str, num_replicas: int, index_bytes: int = 1 << 22) -> None:
        self.replicas, _ = healthy_replicas(num_replicas)
        self.now = 100.0
        self.sizes = CacheSizes()
        self.strategy = build(
            strategy,
            replicas=self.replicas,
            index_bytes=index_bytes,
            sizes=self.sizes,
            now=lambda: self.now,
        )
        self.models = Models(self.replicas)
        self.picker = Picker(self.strategy, self.replicas, models=self.models)
        self.choices: list[Choice] = []

    def send(self, request: InferenceRequest) -> Choice:
        """Pick and send; it stays in flight. Its ticket is its number, from 0 on."""
        choice = self.picker.pick(len(self.choices), request, self.now)
        assert choice is not None
        self.replicas.start(choice.replica, 0)
        self.choices.append(choice)
        return choice

    def answer(self, ticket: int, *, after: float = 0.0) -> None:
        """Its first event comes `after` seconds from now, and it ends."""
        self.now += after
        self.strategy.first_token(ticket, self.now)
        self.strategy.finished(ticket, self.now)
        self.replicas.finish(self.choices[ticket].replica)

    def serve(self, request: InferenceRequest, *, seconds_per_byte: float = 0.0) -> Choice:
        """Send, and answer after the time that an engine takes for what it has not cached."""
        choice = self.send(request)
        num_bytes = request.num_bytes - choice.matched_bytes
        self.answer(len(self.choices) - 1, after=0.001 + seconds_per_byte * num_bytes)
        return choice


def told(news: News) -> tuple[object, ...]:
    """What compares: which news, and what they say."""
    if isinstance(news, Sent):
        sizes = (news.num_bytes, news.matched_bytes)
        return Sent, news.number, news.replica, *sizes, news.streamed, news.block_hashes
    return type(news), getattr(news, "number", None)
