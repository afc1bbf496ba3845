"""The clients that people use, against real vLLM through the router: nothing is lost on the way."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.lab import Lab
from hypertier.lab.metrics import samples, scrape

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent.parent
CHAT = [{"role": "user", "content": "What ends in a hit?"}]
BENCH_SERVE = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
"""`vllm bench serve`, whose command needs a package of the name vllm, which vLLM for CPUs is not."""
TOOL = {
    "name": "lookup",
    "description": "Look a block up.",
    "parameters": {
        "type": "object",
        "properties": {"tier": {"type": "string", "enum": ["L1", "L2"]}},
        "required": ["tier"],
        "additionalProperties": False,
    },
}


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


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"temperature": 0}, id="plain"),
        pytest.param({"temperature": 0, "logprobs": True, "top_logprobs": 3}, id="logprobs"),
        pytest.param({"temperature": 1, "seed": 7, "n": 3}, id="several"),
        pytest.param({"temperature": 0, "stop": ["e", "a"], "max_tokens": 64}, id="stop"),
        pytest.param(
            {
                "temperature": 0,
                "max_tokens": 64,
                "tools": [{"type": "function", "function": TOOL}],
                "tool_choice": "required",
            },
            id="tools",
        ),
        pytest.param(
            {"temperature": 0, "extra_body": {"structured_outputs": {"choice": ["hit", "miss"]}}},
            id="vllms-own",
        ),
    ],
)
def test_a_chat_is_answered_as_by_the_engine_itself(
    lab: Lab, client: openai.OpenAI, direct: openai.OpenAI, asked: dict[str, Any]
) -> None:
    wanted: dict[str, Any] = {"model": lab.plan.model_name, "messages": CHAT, "max_tokens": 12, **asked}

    routed, own = (each.chat.completions.create(**wanted) for each in (client, direct))

    assert [gist(choice.model_dump()) for choice in routed.choices] == [
        gist(choice.model_dump()) for choice in own.choices
    ]
    assert len(routed.choices) == asked.get("n", 1)
    assert routed.usage is not None
    assert own.usage is not None
    assert routed.usage.completion_tokens == own.usage.completion_tokens


def gist(choice: dict[str, Any]) -> dict[str, Any]:
    """What a choice says, but for what is made up and for logprobs' last digits."""
    message = choice["message"]
    calls = [each["function"] for each in message.get("tool_calls") or ()]
    logprobs = (choice.get("logprobs") or {}).get("content") or ()
    return {
        "text": message["content"],
        "calls": calls,
        "finish": choice["finish_reason"],
        "stop": choice.get("stop_reason"),
        "logprobs": [
            (each["token"], round(each["logprob"], 2), len(each["top_logprobs"])) for each in logprobs
        ],
    }


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


def test_a_client_that_leaves_its_stream_frees_the_engine(lab: Lab, client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=lab.plan.model_name,
        messages=CHAT,  # type: ignore[arg-type]
        max_tokens=100_000 // 64,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    next(iter(stream))
    assert num_running(lab) == 1

    stream.close()

    deadline = time.monotonic() + 60
    while num_running(lab):
        assert time.monotonic() < deadline


def num_running(lab: Lab) -> float:
    """Requests that the engines compute now."""
    return sum(
        value
        for url in lab.plan.replica_urls
        for name, _, value in samples(scrape(url))
        if name in ("vllm:num_requests_running", "vllm:num_requests_waiting")
    )


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


def test_curl_prints_a_stream_as_it_comes(lab: Lab) -> None:
    curl = shutil.which("curl")
    assert curl is not None
    body = {"model": lab.plan.model_name, "messages": CHAT, "max_tokens": 8, "stream": True}

    argv = [curl, "-sS", "-N", "--fail-with-body", f"{lab.plan.router_url}/v1/chat/completions"]
    argv += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )

    events = re.findall(r"^data: (.*)$", done.stdout, re.MULTILINE)
    assert events[-1] == "[DONE]"
    assert "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events[:-1])


def test_vllms_own_benchmark_completes_every_request(lab: Lab, tmp_path: Path) -> None:
    python = str(find_engine_python(os.environ, ROOT))
    model = (lab.directory / "model").absolute()
    argv = [python, "-c", BENCH_SERVE, "--backend", "openai-chat"]
    argv += ["--base-url", lab.plan.router_url, "--endpoint", "/v1/chat/completions"]
    argv += ["--model", str(model), "--served-model-name", lab.plan.model_name, "--dataset-name", "random"]
    argv += ["--random-input-len", "64", "--random-output-len", "4", "--num-prompts", "24"]
    argv += ["--max-concurrency", "4", "--save-result", "--result-dir", str(tmp_path)]
    argv += ["--result-filename", "result.json", "--disable-tqdm"]

    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["completed"], result.get("failed", 0)) == (24, 0)
