"""Real vLLM, ended in the midst of a stream: another engine goes on with it, and the text is the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from fakes_engine import Answer, RawClient, post, run_loop

from hypertier.lab.lab import Lab
from hypertier.router.app import Router
from hypertier.router.settings import RouterSettings

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

NUM_TOKENS = 600
PROMPT = "A tier keeps blocks; a lookup is a hit or a miss: 漢字, 🦙. "


def asking(lab: Lab, path: bytes, **fields: Any) -> bytes:
    """A long greedy answer, streamed."""
    prompt: dict[str, Any] = {"prompt": PROMPT}
    if path.endswith(b"/chat/completions"):
        prompt = {"messages": [{"role": "user", "content": PROMPT}]}
    body = {"model": lab.plan.model_name, "stream": True, "max_tokens": NUM_TOKENS, "temperature": 0}
    options = {"stream_options": {"include_usage": True}, "ignore_eos": True}
    text = json.dumps({**body, **options, **prompt, **fields}).encode()
    return post(path, text, b"Content-Type: application/json")


def events_of(answer: Answer) -> list[Any]:
    """Parsed."""
    texts = [text.removeprefix("data: ") for text in answer.body.decode().split("\n\n")]
    return [json.loads(text) if text != "[DONE]" else text for text in texts if text]


def gist(answer: Answer) -> dict[str, Any]:
    """What a client makes of it."""
    events = events_of(answer)
    choices = [choice for event in events[:-1] for choice in event["choices"]]
    usage = [event["usage"] for event in events[:-1] if event.get("usage")]
    return {
        "text": "".join(c["delta"].get("content") or "" if "delta" in c else c["text"] for c in choices),
        "finish": [choice["finish_reason"] for choice in choices if choice["finish_reason"]],
        "usage": [(one["prompt_tokens"], one["completion_tokens"], one["total_tokens"]) for one in usage],
        "ids": len(
            {(event["id"], event["created"], event["object"], event["model"]) for event in events[:-1]}
        ),
        "end": events[-1],
    }


async def with_router(lab: Lab, act: Callable[[Router], Awaitable[Any]]) -> Any:
    """A router of this process before the lab's engines, that migrates streams."""
    router = Router(
        RouterSettings(listen="127.0.0.1:0", replicas=lab.plan.replica_urls, migration_limit=1, explain=True)
    )
    await router.start()
    try:
        return await act(router)
    finally:
        await router.stop()


async def stream(router: Router, data: bytes, *, until: int, act: Callable[[bytes], None]) -> Answer:
    """The answer; `act` is told the engine's address once the client has so many events."""
    client = await RawClient.connect(router.port)
    client.send(data)
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), await client.reader.read(1000)
    begun = b""
    while begun.count(b"data: ") < until:
        size = int(await client.reader.readuntil(b"\r\n"), 16)
        begun += (await client.reader.readexactly(size + 2))[:-2]
    answer = Answer(200, head, begun)
    act(answer.header(b"x-hypertier-replica") or b"")
    try:
        await client._read_chunks(answer)
    except (asyncio.IncompleteReadError, ConnectionError):
        answer.is_whole = False
    client.close()
    return answer


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/completions"], ids=["chat", "completion"])
def test_stream_whose_engine_is_killed_has_the_text_of_an_unbroken_one(lab: Lab, path: bytes) -> None:
    killed: list[str] = []

    def kill(replica: bytes) -> None:
        (name,) = [
            name
            for name, url in zip(lab.engine_names, lab.plan.replica_urls, strict=True)
            if url.endswith(replica.decode().rpartition(":")[2])
        ]
        killed.append(name)
        lab.kill(name)

    async def act(router: Router) -> tuple[Answer, Answer, dict[str, int]]:
        whole = await stream(router, asking(lab, path), until=1, act=lambda _: None)
        broken = await stream(router, asking(lab, path), until=40, act=kill)
        assert router.front.migration is not None
        return whole, broken, dict(router.front.migration.ended)

    whole, broken, ended = run_loop(with_router(lab, act))

    assert len(killed) == 1
    assert broken.is_whole
    assert ended == {"continued": 1}
    assert gist(broken)["finish"] == ["length"]
    assert gist(broken)["ids"] == 1
    assert gist(broken)["usage"] == gist(whole)["usage"]
    assert gist(broken)["text"] == gist(whole)["text"]


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/completions"], ids=["chat", "completion"])
def test_seam_is_invisible_wherever_an_answer_breaks_off(lab: Lab, path: bytes) -> None:
    data = asking(lab, path, max_tokens=120)

    async def act(router: Router, until: int) -> tuple[dict[str, Any], dict[str, int]]:
        def cut(_: bytes) -> None:
            (connection,) = router.front.connections
            cast(Any, connection.exchange)._upstream._transport.abort()

        answer = await stream(router, data, until=max(1, until), act=cut if until else lambda _: None)
        assert router.front.migration is not None
        return gist(answer), dict(router.front.migration.ended)

    # A router for each: what breaks off five times in a row on one replica has that replica taken out.
    whole, _ = run_loop(with_router(lab, lambda router: act(router, 0)))
    cuts = [
        run_loop(with_router(lab, lambda router, until=until: act(router, until)))  # type: ignore[misc]
        for until in range(2, 90, 16)
    ]

    assert cuts == [(whole, {"continued": 1})] * len(cuts)
