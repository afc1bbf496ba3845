"""The clients that people use, against real vLLM through the router: nothing is lost on the way."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from exchanges import ASKED, CHAT, TOOL, bench_serve, body, num_running, num_written, streamed, whole

from hypertier.lab.lab import Lab

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

MANY_TOKENS = 3000
"""More than an engine of the lab writes while it is asked whether it does."""


@pytest.fixture
def client(lab: Lab) -> Iterator[openai.OpenAI]:
    """OpenAI's, of the router."""
    with openai.OpenAI(
        base_url=f"{lab.plan.router_url}/v1", api_key="none", timeout=300, max_retries=0
    ) as made:
        yield made


@pytest.fixture
def direct(lab: Lab) -> Iterator[openai.OpenAI]:
    """The same of an engine."""
    with openai.OpenAI(base_url=f"{lab.plan.replica_urls[0]}/v1", api_key="none", timeout=300) as made:
        yield made


@pytest.mark.parametrize("hear", [whole, streamed])
@pytest.mark.parametrize("more", ASKED.values(), ids=ASKED)
def test_a_chat_is_answered_as_by_the_engine_itself(
    lab: Lab,
    client: openai.OpenAI,
    direct: openai.OpenAI,
    more: dict[str, Any],
    hear: Callable[..., tuple[list[Any], int]],
) -> None:
    routed, own = (hear(each, lab.plan.model_name, more) for each in (client, direct))

    assert routed == own
    assert len(routed[0]) == more.get("n", 1)


def test_a_stream_has_the_tokens_and_the_usage_of_the_whole_answer(lab: Lab, client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": lab.plan.model_name,
        "messages": CHAT,
        "max_tokens": 24,
        "temperature": 0,
    }

    whole = client.chat.completions.create(**asked)
    events = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )

    text = "".join(choice.delta.content or "" for event in events for choice in event.choices)
    assert text == whole.choices[0].message.content
    assert len(events) > 4
    assert whole.usage is not None
    assert events[-1].usage is not None
    assert events[-1].usage.completion_tokens == whole.usage.completion_tokens == 24


def test_a_streamed_call_of_a_tool_arrives_piece_by_piece(
    lab: Lab, client: openai.OpenAI, direct: openai.OpenAI
) -> None:
    def pieces(of: openai.OpenAI) -> list[tuple[str | None, str | None]]:
        events = of.chat.completions.create(
            model=lab.plan.model_name,
            messages=CHAT,  # type: ignore[arg-type]
            max_tokens=64,
            temperature=0,
            tools=[{"type": "function", "function": TOOL}],  # type: ignore[list-item]
            tool_choice="required",
            stream=True,
        )
        return [
            (call.function.name, call.function.arguments)
            for event in events
            for choice in event.choices
            for call in choice.delta.tool_calls or ()
            if call.function is not None
        ]

    for _ in range(10):  # an engine that is behind sends several tokens as one piece
        routed, asked_directly = pieces(client), pieces(direct)
        if routed == asked_directly:
            break

    assert routed == asked_directly
    assert [name for name, _ in routed if name] == ["lookup"]


def test_texts_and_responses_are_served_too(lab: Lab, client: openai.OpenAI) -> None:
    model = lab.plan.model_name

    text = client.completions.create(
        model=model, prompt="A tier", max_tokens=4, temperature=0, logprobs=1, echo=True
    )
    response = client.responses.create(model=model, input="A tier", max_output_tokens=8, temperature=0)
    events = [
        each.type
        for each in client.responses.create(model=model, input="A", max_output_tokens=8, stream=True)
    ]

    assert text.choices[0].text.startswith("A tier")
    assert text.choices[0].logprobs is not None
    assert response.output_text
    assert events[0] == "response.created"
    assert events[-1] in ("response.completed", "response.incomplete")


def test_errors_of_the_engine_reach_the_client_as_they_are(lab: Lab, client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=lab.plan.model_name, messages=CHAT, max_tokens=-1)  # type: ignore[arg-type]
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nobody", messages=CHAT)  # type: ignore[arg-type]

    assert "max_tokens" in caught.value.message


def leave_stream(url: str, asked: dict[str, Any]) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=300, max_retries=0) as client:
        stream = client.chat.completions.create(**asked, stream=True)
        next(iter(stream))
        stream.close()


def give_up(url: str, asked: dict[str, Any]) -> None:
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=1, max_retries=0) as client,
        pytest.raises(openai.APITimeoutError),
    ):
        client.chat.completions.create(**asked)


def leave_anthropics_stream(url: str, asked: dict[str, Any]) -> None:
    with (
        anthropic.Anthropic(base_url=url, api_key="none", timeout=300, max_retries=0) as client,
        client.messages.stream(**asked) as stream,
    ):
        next(iter(stream.text_stream))


def end_curl(url: str, asked: dict[str, Any]) -> None:
    data = json.dumps({**asked, **asked["extra_body"], "extra_body": None, "stream": True})
    argv = ["curl", "-sS", "-N", f"{url}/v1/chat/completions", "-H", "Content-Type: application/json"]
    with subprocess.Popen([*argv, "-d", data], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"data: ")
        process.kill()


@pytest.mark.parametrize("leave", [leave_stream, give_up, leave_anthropics_stream, end_curl])
def test_a_client_that_leaves_its_stream_frees_the_engine(
    lab: Lab, leave: Callable[[str, dict[str, Any]], None]
) -> None:
    asked = body(
        lab.plan.model_name, {"max_tokens": MANY_TOKENS, "extra_body": {"ignore_eos": True, "temperature": 0}}
    )
    before = num_written(lab)

    leave(lab.plan.router_url, asked)

    deadline = time.monotonic() + 60
    while num_running(lab):
        assert time.monotonic() < deadline
    assert num_written(lab) - before < MANY_TOKENS


def test_anthropics_client_streams_and_offers_tools(lab: Lab) -> None:
    asked: dict[str, Any] = {
        "model": lab.plan.model_name,
        "max_tokens": 24,
        "messages": CHAT,
        "extra_body": {"temperature": 0},
    }
    tool = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}

    with anthropic.Anthropic(
        base_url=lab.plan.router_url, api_key="none", timeout=300, max_retries=0
    ) as client:
        whole = client.messages.create(**asked)
        with client.messages.stream(**asked) as stream:
            streamed = "".join(stream.text_stream)
        offered = client.messages.create(
            **{**asked, "max_tokens": 64}, tools=[tool], tool_choice={"type": "auto"}
        )

    assert "".join(block.text for block in whole.content if block.type == "text") == streamed
    assert whole.usage.output_tokens == 24
    assert offered.usage.input_tokens > 0


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"system": "Answer in one word."}, id="system"),
        pytest.param({"stop_sequences": ["e", "a"], "max_tokens": 64}, id="stop"),
        pytest.param({"messages": [*CHAT, {"role": "assistant", "content": "A block"}, *CHAT]}, id="turns"),
        pytest.param(
            {
                "max_tokens": 64,
                "tools": [
                    {
                        "name": TOOL["name"],
                        "description": TOOL["description"],
                        "input_schema": TOOL["parameters"],
                    }
                ],
                "tool_choice": {"type": "any"},
            },
            id="tools",
        ),
    ],
)
def test_a_message_is_answered_as_by_the_engine_itself(lab: Lab, more: dict[str, Any]) -> None:
    asked = body(lab.plan.model_name, {"extra_body": {"temperature": 0}, **more})

    def told(url: str) -> tuple[Any, ...]:
        with anthropic.Anthropic(base_url=url, api_key="none", timeout=300, max_retries=0) as client:
            answer = client.messages.create(**asked)
        parts = [
            (part.type, getattr(part, "text", None), getattr(part, "input", None)) for part in answer.content
        ]
        return parts, answer.stop_reason, answer.stop_sequence, answer.usage.output_tokens

    assert told(lab.plan.router_url) == told(lab.plan.replica_urls[0])


def curl(*more: str) -> str:
    """What curl prints."""
    program = shutil.which("curl")
    assert program is not None
    argv = [program, "-sS", "-N", "--fail-with-body", "-H", "Content-Type: application/json", *more]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300).stdout


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="plain"),
        pytest.param(("--http1.0",), id="http-1.0"),
        pytest.param(("-H", "Transfer-Encoding: chunked"), id="chunked"),
        pytest.param(("-H", "Expect: 100-continue"), id="expect"),
        pytest.param(("--http2",), id="offers-http-2"),
        pytest.param(("--compressed",), id="compressed"),
    ],
)
def test_curl_is_answered_however_it_asks(lab: Lab, flags: tuple[str, ...]) -> None:
    data = json.dumps(body(lab.plan.model_name, {"temperature": 0}))

    routed = json.loads(curl(*flags, f"{lab.plan.router_url}/v1/chat/completions", "-d", data))
    own = json.loads(curl(f"{lab.plan.replica_urls[0]}/v1/chat/completions", "-d", data))

    assert routed["choices"][0]["message"]["content"] == own["choices"][0]["message"]["content"]


def test_curl_prints_a_stream_as_it_comes(lab: Lab) -> None:
    data = json.dumps(body(lab.plan.model_name, {"stream": True, "max_tokens": 8}))

    told = curl(f"{lab.plan.router_url}/v1/chat/completions", "-d", data)

    events = re.findall(r"^data: (.*)$", told, re.MULTILINE)
    assert events[-1] == "[DONE]"
    assert "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events[:-1])


def test_vllms_own_benchmark_completes_every_request(lab: Lab, tmp_path: Path) -> None:
    assert bench_serve(lab, lab.plan.router_url, tmp_path) == (24, 0)
