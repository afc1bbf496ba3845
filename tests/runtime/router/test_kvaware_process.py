"""A router that hears two engines' events over sockets, and asks them for tokens."""

from __future__ import annotations

import asyncio
import json

from fakes_engine import FakeEngine, RawClient, Received, eventually, get, json_answer, post, run_loop
from fakes_kv_publisher import Publisher, two_free_ports
from fakes_router import routed

CHAT = b"/v1/chat/completions"
BLOCK_SIZE = 16
TEXT = "It was a bright cold day in April, and the clocks were striking thirteen. " * 4
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": TEXT}]}).encode()


async def answer(received: Received, writer: asyncio.StreamWriter) -> None:
    """`/tokenize` as an engine whose tokens are characters; `{}` to all else."""
    if received.line != b"POST /tokenize HTTP/1.1":
        writer.write(json_answer(b"{}"))
        return
    text = json.loads(received.body)["messages"][0]["content"]
    tokens = {"tokens": list(map(ord, text)), "token_strs": list(text)}
    writer.write(json_answer(json.dumps(tokens).encode()))


def stored(text: str) -> list[object]:
    num_blocks = len(text) // BLOCK_SIZE
    tokens = list(map(ord, text[: num_blocks * BLOCK_SIZE]))
    return ["BlockStored", list(range(num_blocks)), None, tokens, BLOCK_SIZE, None, "GPU"]


async def metrics_of(client: RawClient) -> dict[str, float]:
    client.send(get(b"/metrics"))
    lines = (await client.answer()).body.decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def test_a_chat_goes_where_the_engine_says_that_it_is_cached() -> None:
    async def act() -> tuple[list[str], list[str], dict[str, float]]:
        engines = [FakeEngine(answer=answer), FakeEngine(answer=answer)]
        publishers = [Publisher(two_free_ports()) for _ in engines]
        for publisher in publishers:
            await publisher.publish(stored("something else that is of no use"))
        events = tuple(f"127.0.0.1:{publisher.port}" for publisher in publishers)
        try:
            async with routed(*engines, strategy="kvaware", kv_events=events, explain=True) as router:
                client = await RawClient.connect(router.port)

                async def served() -> tuple[str, str]:
                    client.send(post(CHAT, BODY))
                    got = await client.answer()
                    assert got.status == 200
                    return tuple(  # type: ignore[return-value]
                        (got.header(b"x-hypertier-" + name) or b"").decode()
                        for name in (b"replica", b"reason")
                    )

                def count(name: str) -> int:
                    return sum(line.startswith(name) for line in router.metrics.text().decode().splitlines())

                in_step = "hypertier_router_kvaware_in_step 2.0"
                await eventually(lambda: count(in_step) == 1)
                first = await served()
                good = 'hypertier_router_kvaware_tokenizations_total{cause="good"} 1.0'
                await eventually(lambda: count(good) == 1)
                second = await served()
                other = next(
                    publisher
                    for engine, publisher in zip(engines, publishers, strict=True)
                    if engine.url != f"http://{second[0]}"
                )
                await other.publish(["AllBlocksCleared"], stored(TEXT))
                await eventually(lambda: count("hypertier_router_kvaware_batches_total 3.0") == 1)
                third = await served()
                return (
                    [first[1], second[1], third[1]],
                    [second[0], third[0]],
                    await metrics_of(client),
                )
        finally:
            for publisher in publishers:
                await publisher.close()

    reasons, (before, after), metrics = run_loop(act())

    assert reasons == ["load", "prefix", "kv"]
    assert before != after
    assert metrics['hypertier_router_kvaware_fallbacks_total{cause="not_tokenized"}'] == 1
    assert metrics['hypertier_router_kvaware_fallbacks_total{cause="not_confirmed"}'] == 1


def test_without_events_it_serves_as_prefixaware_and_counts_why() -> None:
    async def act() -> tuple[int, dict[str, float]]:
        events = (f"127.0.0.1:{two_free_ports()}",)
        async with routed(FakeEngine(answer=answer), strategy="kvaware", kv_events=events) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, BODY))
            status = (await client.answer()).status
            return status, await metrics_of(client)

    status, metrics = run_loop(act())

    assert status == 200
    assert metrics['hypertier_router_kvaware_fallbacks_total{cause="no_events"}'] == 1
    assert metrics["hypertier_router_kvaware_in_step"] == 0
