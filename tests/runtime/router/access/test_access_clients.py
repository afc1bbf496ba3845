"""OpenAI's and Anthropic's own clients, with keys of the router."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from fakes_access import ACME, ZETA, AccessFolder, salt_of
from fakes_engine import SSE_HEAD, FakeEngine, Received, chunk, json_answer, run_loop
from fakes_router import routed

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

T = TypeVar("T")
MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]
LIMITS = "access: {tenants: [{name: zeta, requestsPerMinute: 1}]}\n"


async def engine_answer(request: Received, writer: asyncio.StreamWriter) -> None:
    """A chat or a message, streamed or whole, that says which salt came."""
    body = json.loads(request.body) if request.body else {}
    text = str(body.get("cache_salt"))
    if b"/v1/models" in request.line:
        writer.write(json_answer(b'{"object": "list", "data": [{"id": "m", "object": "model"}]}'))
    elif b"/v1/messages" in request.line:
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        content = [{"type": "text", "text": text}]
        writer.write(json_answer(json.dumps(message | {"content": content, "usage": usage}).encode()))
    elif body.get("stream"):
        choices = [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]
        event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
        done = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        writer.write(SSE_HEAD + chunk(b"data: " + json.dumps(event).encode() + b"\n\n") + done)
    else:
        choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
        whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
        writer.write(json_answer(json.dumps(whole).encode()))


async def through(folder: AccessFolder, use: Callable[[int], T]) -> T:
    """What `use` returns in a thread, called with the port of a router that asks for keys."""
    async with routed(FakeEngine(engine_answer), strategy="prefixaware", **folder.settings) as router:
        return await asyncio.to_thread(use, router.port)


def client_of(port: int, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0)


def test_openais_client_is_known_by_its_key(tmp_path: Path) -> None:
    def use(port: int) -> tuple[list[str], str | None, str | None]:
        with client_of(port, ACME) as client:
            models = [model.id for model in client.models.list()]
            whole = client.chat.completions.create(model="m", messages=MESSAGES)
            own = {"cache_salt": "zeta"}
            events = client.chat.completions.create(model="m", messages=MESSAGES, stream=True, extra_body=own)
            streamed = "".join(event.choices[0].delta.content or "" for event in events)
            return models, whole.choices[0].message.content, streamed

    assert run_loop(through(AccessFolder(tmp_path), use)) == (["m"], salt_of("acme"), salt_of("acme"))


def test_openais_client_understands_why_not(tmp_path: Path) -> None:
    def use(port: int) -> tuple[Any, ...]:
        with client_of(port, "sk-wrong") as client, pytest.raises(openai.AuthenticationError) as denied:
            client.models.list()
        with client_of(port, ZETA) as client:
            first = client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)
            with pytest.raises(openai.RateLimitError) as limited:
                client.chat.completions.create(model="m", messages=MESSAGES)
        return (
            denied.value.code,
            first.headers["x-ratelimit-remaining-requests"],
            limited.value.code,
            limited.value.type,
            limited.value.response.headers["retry-after"],
        )

    found = run_loop(through(AccessFolder(tmp_path, LIMITS), use))

    assert found == ("invalid_api_key", "0", "rate_limit_exceeded", "requests", "60")


def test_anthropics_client_is_known_by_its_key(tmp_path: Path) -> None:
    def use(port: int) -> list[str]:
        url = f"http://127.0.0.1:{port}"
        wrong = anthropic.Anthropic(base_url=url, api_key="sk-wrong", max_retries=0)
        with wrong as client, pytest.raises(anthropic.AuthenticationError):
            client.messages.create(model="m", max_tokens=1, messages=MESSAGES)
        told = []
        for given in ({"api_key": ACME}, {"auth_token": ZETA, "api_key": None}):
            with anthropic.Anthropic(base_url=url, max_retries=0, **given) as client:
                message = client.messages.create(model="m", max_tokens=1, messages=MESSAGES)
                told.append(message.content[0].text)
        return told

    found = run_loop(through(AccessFolder(tmp_path), use))

    assert found == [salt_of("acme"), salt_of("zeta")]


@pytest.mark.parametrize("num_bytes", [2, 100_000], ids=["short", "refused-before-it-is-read"])
def test_anthropics_client_understands_why_not(tmp_path: Path, num_bytes: int) -> None:
    messages: list[Any] = [{"role": "user", "content": "x" * num_bytes}]

    def use(port: int) -> tuple[Any, Any]:
        url = f"http://127.0.0.1:{port}"
        wrong = anthropic.Anthropic(base_url=url, api_key="sk-wrong", max_retries=0)
        with wrong as client, pytest.raises(anthropic.AuthenticationError) as denied:
            client.messages.create(model="m", max_tokens=1, messages=messages)
        with anthropic.Anthropic(base_url=url, api_key=ZETA, max_retries=0) as client:
            client.messages.create(model="m", max_tokens=1, messages=MESSAGES)
            with pytest.raises(anthropic.RateLimitError) as limited:
                client.messages.create(model="m", max_tokens=1, messages=MESSAGES)
        return denied.value.body, limited.value.body

    denied, limited = run_loop(through(AccessFolder(tmp_path, LIMITS), use))

    assert (denied["type"], denied["error"]["type"]) == ("error", "authentication_error")
    assert (limited["type"], limited["error"]["type"]) == ("error", "rate_limit_error")
