"""OpenAI's own client through the router."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TypeVar

import pytest
from fakes_engine import SSE_HEAD, FakeEngine, Received, chunk, eventually, json_answer, run_loop
from fakes_router import routed

openai = pytest.importorskip("openai")

T = TypeVar("T")
MESSAGES = [{"role": "user", "content": "hi"}]


def delta(text: str) -> bytes:
    """One event of a streamed chat."""
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": None}]
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
    return chunk(b"data: " + json.dumps(event).encode() + b"\n\n")


async def chat(request: Received, writer: asyncio.StreamWriter) -> None:
    """A chat, streamed or whole, that says how many bytes it was sent."""
    if b'"stream":true' in request.body or b'"stream": true' in request.body:
        writer.write(SSE_HEAD + delta("one ") + delta("two") + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        return
    message = {"role": "assistant", "content": f"{len(request.body)}"}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
    writer.write(json_answer(json.dumps(body).encode()))


async def endless(request: Received, writer: asyncio.StreamWriter) -> None:
    """A stream that ends when its reader goes away."""
    writer.write(SSE_HEAD + delta("one"))
    await asyncio.Event().wait()


async def through_router(engine: FakeEngine, use: Callable[[openai.OpenAI], T], disconnects: int = 0) -> T:
    """What `use` returns, called in a thread with a client of a router before `engine`.

    Returns once the engine has seen as many disconnects, while the router still runs.
    """
    async with routed(engine, strategy="prefixaware") as router:

        def run() -> T:
            url = f"http://127.0.0.1:{router.port}/v1"
            with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
                return use(client)

        found = await asyncio.to_thread(run)
        await eventually(lambda: engine.num_disconnects == disconnects)
        return found


def test_whole_chat() -> None:
    async def act() -> str:
        return await through_router(
            FakeEngine(chat),
            lambda client: (
                client.chat.completions.create(model="m", messages=MESSAGES).choices[0].message.content
            ),
        )

    assert int(run_loop(act())) > 20


def test_streamed_chat() -> None:
    def use(client: openai.OpenAI) -> list[str | None]:
        stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        return [event.choices[0].delta.content for event in stream]

    assert run_loop(through_router(FakeEngine(chat), use)) == ["one ", "two"]


def test_errors_of_the_router_are_read_as_openais() -> None:
    def use(client: openai.OpenAI) -> tuple[str | None, str | None]:
        with pytest.raises(openai.InternalServerError) as caught:
            client.chat.completions.create(model="m", messages=MESSAGES)
        return caught.value.code, caught.value.type

    found = run_loop(through_router(FakeEngine(chat, healthy=False), use))

    assert found == ("no_replica", "server_error")


def test_stream_that_is_closed_early_reaches_the_engine() -> None:
    def use(client: openai.OpenAI) -> str | None:
        stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        first = next(iter(stream)).choices[0].delta.content
        stream.close()
        return first

    assert run_loop(through_router(FakeEngine(endless), use, disconnects=1)) == "one"
