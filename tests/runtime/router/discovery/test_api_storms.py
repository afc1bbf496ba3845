"""A whole router behind Kubernetes' API in trouble: no request fails, and no replica is lost or kept."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes_endpoint_slices import SlicesApi, endpoint, slice_of
from fakes_engine import FakeEngine, RawClient, eventually, post, run_loop
from fakes_router import routed

from hypertier.router.app import Router
from hypertier.router.discovery import api_server, slice_discovery
from hypertier.router.replicas.replicas import State

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
NUM_STEPS = 80
PODS = ["come", "come", "leave", "leave", "leave", "restart"]


def listing(engine: FakeEngine) -> dict[str, object]:
    """A slice of that engine alone: all of them have one address here."""
    return slice_of(f"s{engine.port}", endpoint("127.0.0.1", pod=f"p{engine.port}"), port=engine.port)


class Cluster:
    """Engines and the API that lists them. `troubles` are what happens to the API."""

    def __init__(self, api: SlicesApi, draw: random.Random) -> None:
        self.api = api
        self.draw = draw
        self.engines: list[FakeEngine] = []
        self.troubles: dict[str, Callable[[], None]] = {
            "cut": api.cut,
            "gone": api.compact,
            "gone-and-cut": self._compact_and_cut,
            "restored": self._restore,
            "refuses": lambda: setattr(api, "answer_with", draw.choice([429, 500, 503])),
            "refuses-lists": lambda: setattr(api, "list_with", draw.choice([429, 500, 504])),
            "lists-without-end": lambda: setattr(api, "slow", True),
            "is-well": self.mend,
            "bookmark": api.bookmark,
            "nonsense": lambda: api.say(b'{"type":"NEWS"}\n'),
        }

    def _compact_and_cut(self) -> None:
        self.api.compact()
        self.api.cut()

    def _restore(self) -> None:
        self.api.restore()
        self.api.cut()

    def mend(self) -> None:
        """All is well with it."""
        self.api.answer_with = self.api.list_with = 0
        self.api.slow = False

    async def come(self) -> None:
        """A pod comes."""
        engine = await FakeEngine(name=f"engine-{len(self.engines)}").start()
        self.engines.append(engine)
        self.api.put(listing(engine))

    def leave(self) -> FakeEngine:
        """A pod is no longer listed; it goes on with what it has."""
        engine = self.engines.pop(self.draw.randrange(len(self.engines)))
        self.api.delete(f"s{engine.port}")
        return engine

    def is_followed(self, router: Router) -> bool:
        """The router has exactly these engines, and may pick them all."""
        found = {replica.url: replica.state for replica in router.replicas.by_url.values()}
        return found == {engine.url: State.HEALTHY for engine in self.engines}


async def storm(folder: Path, seed: int) -> tuple[Counter[int], set[str], set[str], Counter[str]]:
    """Statuses of answers; URLs that left the router's list alone, and both; failures to ask the API."""
    cluster = Cluster(await SlicesApi(folder).start(), random.Random(seed))
    api = cluster.api
    statuses: Counter[int] = Counter()
    left: set[str] = set()
    gone: set[str] = set()
    for _ in range(4):
        await cluster.come()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        patch.setenv("KUBERNETES_SERVICE_PORT", str(api.server.address.port))
        async with routed(
            replicas=(), discover="k8s://ns/engine:http", health_interval_seconds=0.02
        ) as router:
            router.replicas.watch(
                lambda replica, _: left.add(replica.url) if replica.state is State.LEAVING else None
            )

            async def ask() -> None:
                client = await RawClient.connect(router.port)
                while True:
                    client.send(post(b"/v1/chat/completions", BODY))
                    statuses[(await client.answer()).status] += 1

            asking = [asyncio.create_task(ask()) for _ in range(4)]
            for step in range(NUM_STEPS):
                what = cluster.draw.choice([*PODS, *cluster.troubles])
                if what == "come" and len(cluster.engines) < 8:
                    await cluster.come()
                elif what == "leave" and len(cluster.engines) > 2:
                    gone.add(cluster.leave().url)
                elif what == "restart":
                    await api.stop()
                    await asyncio.sleep(0)
                    await api.start()
                elif what in cluster.troubles:
                    cluster.troubles[what]()
                asked = statuses.total()
                await eventually(lambda asked=asked: statuses.total() >= asked + 8)
                if step % 20 == 19:
                    cluster.mend()
                    await eventually(lambda: cluster.is_followed(router))
            for task in asking:
                task.cancel()
            ended = await asyncio.gather(*asking, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in ended)
            failures = Counter(router._discoveries.of("replicas").failures)
            unasked = left - gone
    await api.stop()
    return statuses, unasked, gone, failures


@pytest.mark.parametrize("seed", range(4))
def test_no_request_fails_and_no_replica_is_lost_while_the_api_is_in_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(api_server, "ACCOUNT_FOLDER", tmp_path)
    monkeypatch.setattr(api_server.in_cluster, "__defaults__", (tmp_path,))
    monkeypatch.setattr(slice_discovery, "MIN_BACKOFF_SECONDS", 0.002)
    monkeypatch.setattr(slice_discovery, "MAX_BACKOFF_SECONDS", 0.02)
    monkeypatch.setattr(slice_discovery, "LIST_SECONDS", 0.05)

    statuses, left_unasked, gone, failures = run_loop(storm(tmp_path, seed))

    assert set(statuses) == {200}
    assert left_unasked == set()
    assert gone
    assert failures.total() > 5
