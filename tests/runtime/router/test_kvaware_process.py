"""A router that hears engines' events over sockets, and believes those that it verified."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fakes_engine import RawClient, eventually, get, post, run_loop
from fakes_kv_engine import KvEngine
from fakes_kv_publisher import Publisher, two_free_ports
from fakes_router import routed

from hypertier.router.app import Router

CHAT = b"/v1/chat/completions"
TEXT = "It was a bright cold day in April, and the clocks were striking thirteen. " * 4
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": TEXT}]}).encode()


class Client(RawClient):
    """Asks a router."""

    async def served(self) -> tuple[str, str]:
        """Send the chat: by whom it was answered, and why there."""
        self.send(post(CHAT, BODY))
        got = await self.answer()
        assert got.status == 200
        replica, reason = (got.header(b"x-hypertier-" + name) or b"" for name in (b"replica", b"reason"))
        return f"http://{replica.decode()}", reason.decode()

    async def decisions(self) -> list[dict[str, Any]]:
        """Where the chat would go, and what is thought of each candidate."""
        self.send(post(b"/explain?path=/v1/chat/completions", BODY))
        found: list[dict[str, Any]] = json.loads((await self.answer()).body)["candidates"]
        return found


def count(router: Router, series: str) -> float:
    """The value of a series; 0 where there is none."""
    for line in router.metrics.text().decode().splitlines():
        name, _, value = line.rpartition(" ")
        if name == f"hypertier_router_{series}":
            return float(value)
    return 0.0


@asynccontextmanager
async def heard(*engines: KvEngine) -> AsyncIterator[tuple[Router, list[Publisher]]]:
    """A router that hears these engines."""
    publishers = [Publisher(two_free_ports()) for _ in engines]
    for engine, publisher in zip(engines, publishers, strict=True):
        engine.say = publisher.publish
    events = tuple(f"127.0.0.1:{publisher.port}" for publisher in publishers)
    try:
        async with routed(
            *engines, strategy="kvaware", kv_events=events, explain=True, metrics_port=0
        ) as router:
            yield router, publishers
    finally:
        for publisher in publishers:
            await publisher.close()


def verified(router: Router, engine: KvEngine) -> bool:
    return count(router, f'kvaware_verified{{replica="{engine.url}"}}') == 1


def test_a_chat_goes_where_the_engine_says_that_it_is_cached() -> None:
    async def act() -> tuple[list[str], list[str], float, float]:
        engines = [KvEngine(), KvEngine()]
        async with heard(*engines) as (router, publishers):
            await eventually(lambda: all(verified(router, engine) for engine in engines))
            client = await Client.connect(router.port)
            first = await client.served()
            await eventually(lambda: count(router, 'kvaware_tokenizations_total{cause="good"}') == 1)
            second = await client.served()
            num_batches = 2 * len(engines) + 2  # prompts of the router's own, and the chats
            await eventually(lambda: count(router, "kvaware_batches_total") == num_batches)
            for engine, publisher in zip(engines, publishers, strict=True):
                is_home = engine.url == second[0]
                text = engine.template.format(TEXT)
                await publisher.publish({"type": "AllBlocksCleared"} if is_home else engine.stored(text))
            await eventually(lambda: count(router, "kvaware_batches_total") == num_batches + 2)
            third = await client.served()
            served = [first, second, third]
            return (
                [replica for replica, _ in served],
                [reason for _, reason in served],
                count(router, 'kvaware_fallbacks_total{cause="not_tokenized"}'),
                count(router, 'kvaware_verifications_total{result="good"}'),
            )

    (home, again, moved), reasons, num_fallbacks, num_good = run_loop(act())

    assert reasons == ["load", "kv", "kv"]
    assert home == again != moved
    assert (num_fallbacks, num_good) == (1, 2)


def test_an_engine_that_stores_other_tokens_than_it_tells_is_named_everywhere_and_still_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act() -> tuple[list[str], float, float, list[dict[str, Any]]]:
        engine = KvEngine(told="<USER>{}<assistant>")
        async with heard(engine) as (router, _):
            await eventually(lambda: count(router, 'kvaware_verifications_total{result="tokens"}') == 1)
            client = await Client.connect(router.port)
            reasons = [(await client.served())[1] for _ in range(2)]
            admin = await Client.connect(router.metrics_port)
            return (
                reasons,
                count(router, 'kvaware_fallbacks_total{cause="not_verified"}'),
                count(router, f'kvaware_verified{{replica="{engine.url}"}}'),
                await admin.decisions(),
            )

    reasons, num_fallbacks, is_verified, (candidate,) = run_loop(act())

    assert reasons == ["only", "prefix"] or reasons == ["only", "only"]
    assert (num_fallbacks, is_verified) == (2, 0)
    assert candidate["kv_events"].startswith("tokens: chat: token 1 of a prompt is 85 by /tokenize, and 117")
    assert candidate["replica"] in caplog.text
    assert candidate["kv_events"].partition(": ")[2] in caplog.text


def test_an_engine_that_restarted_is_verified_again() -> None:
    async def act() -> float:
        engine = KvEngine()
        async with heard(engine) as (router, publishers):
            await eventually(lambda: verified(router, engine))
            port = publishers[0].port
            await publishers[0].close()
            publishers[0] = Publisher(port, started=1000.0)
            engine.say = publishers[0].publish
            engine.told = "<USER>{}"
            await publishers[0].subscribed()
            await publishers[0].publish(engine.stored(TEXT))
            await eventually(lambda: count(router, 'kvaware_resyncs_total{cause="restart"}') == 1)
            await eventually(lambda: count(router, 'kvaware_verifications_total{result="tokens"}') == 1)
            return count(router, f'kvaware_verified{{replica="{engine.url}"}}')

    assert run_loop(act()) == 0


def test_without_events_it_serves_as_prefixaware_and_counts_why() -> None:
    async def act() -> tuple[float, float]:
        events = (f"127.0.0.1:{two_free_ports()}",)
        async with routed(KvEngine(), strategy="kvaware", kv_events=events, explain=True) as router:
            client = await Client.connect(router.port)
            await client.served()
            client.send(get(b"/metrics"))
            await client.answer()
            return (
                count(router, 'kvaware_fallbacks_total{cause="no_events"}'),
                count(router, "kvaware_in_step"),
            )

    assert run_loop(act()) == (1, 0)
