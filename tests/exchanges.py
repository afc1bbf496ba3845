"""What people's clients ask of real vLLM, by a router or directly, and the gist of what they hear."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai

from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.lab import Lab
from hypertier.lab.metrics import samples, scrape

ROOT = Path(__file__).parent.parent
CHAT: list[dict[str, Any]] = [{"role": "user", "content": "What ends in a hit?"}]
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
ASKED: dict[str, dict[str, Any]] = {
    "plain": {"temperature": 0},
    "logprobs": {"temperature": 0, "logprobs": True, "top_logprobs": 3},
    "several": {"temperature": 1, "seed": 7, "n": 3},
    "stop": {"temperature": 0, "stop": ["e", "a"], "max_tokens": 64},
    "tools": {
        "temperature": 0,
        "max_tokens": 64,
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": "required",
    },
    "vllms-own": {"temperature": 0, "extra_body": {"structured_outputs": {"choice": ["hit", "miss"]}}},
}
"""Members of a chat's body beside model and messages, by what they are about."""
BENCH_SERVE = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
"""`vllm bench serve`, whose command needs a package of the name vllm, which vLLM for CPUs is not."""


@dataclass
class Choice:
    """One of an answer's, but for what is made up and for logprobs' last digits."""

    text: str = ""
    finish: str | None = None
    stop: Any = None
    logprobs: list[tuple[str, float, int]] = field(default_factory=list)
    calls: dict[int, list[str]] = field(default_factory=lambda: defaultdict(lambda: ["", ""]))

    def add(self, choice: dict[str, Any], message: dict[str, Any]) -> None:
        """A piece of it, or all."""
        self.text += message.get("content") or ""
        self.finish = choice["finish_reason"] or self.finish
        self.stop = choice.get("stop_reason") or self.stop
        for each in (choice.get("logprobs") or {}).get("content") or ():
            self.logprobs.append((each["token"], round(each["logprob"], 2), len(each["top_logprobs"])))
        for number, call in enumerate(message.get("tool_calls") or ()):
            parts = self.calls[call.get("index", number)]
            parts[0] += call["function"].get("name") or ""
            parts[1] += call["function"].get("arguments") or ""

    def gist(self) -> tuple[Any, ...]:
        """To compare it by."""
        return self.text, self.finish, self.stop, self.logprobs, sorted(self.calls.items())


def body(model: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Of a chat."""
    return {"model": model, "messages": CHAT, "max_tokens": 12, **more}


def whole(client: openai.OpenAI, model: str, more: Mapping[str, Any]) -> tuple[list[Any], int]:
    """The gist of each choice, and the tokens written."""
    answer = client.chat.completions.create(**body(model, more))
    gists = []
    for choice in answer.choices:
        made = Choice()
        made.add(choice.model_dump(), choice.message.model_dump())
        gists.append(made.gist())
    assert answer.usage is not None
    return gists, answer.usage.completion_tokens


def streamed(client: openai.OpenAI, model: str, more: Mapping[str, Any]) -> tuple[list[Any], int]:
    """The same of a stream."""
    choices: dict[int, Choice] = defaultdict(Choice)
    num_tokens = -1
    asked = body(model, more)
    for event in client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        for choice in event.choices:
            choices[choice.index].add(choice.model_dump(), choice.delta.model_dump())
        if event.usage is not None:
            num_tokens = event.usage.completion_tokens
    return [made.gist() for _, made in sorted(choices.items())], num_tokens


def engine_sum(lab: Lab, *names: str) -> float:
    """The sum of these series of all engines."""
    return sum(
        value for url in lab.plan.replica_urls for name, _, value in samples(scrape(url)) if name in names
    )


def num_running(lab: Lab) -> float:
    """Requests that the engines compute now, or will."""
    return engine_sum(lab, "vllm:num_requests_running", "vllm:num_requests_waiting")


def num_written(lab: Lab) -> float:
    """Tokens that the engines wrote since they started."""
    return engine_sum(lab, "vllm:generation_tokens_total")


def bench_serve(lab: Lab, url: str, folder: Path, key: str = "none") -> tuple[int, int]:
    """How many of 24 requests of vLLM's own benchmark were completed, and how many failed."""
    python = str(find_engine_python(os.environ, ROOT))
    model = (lab.directory / "model").absolute()
    argv = [python, "-c", BENCH_SERVE, "--backend", "openai-chat"]
    argv += ["--base-url", url, "--endpoint", "/v1/chat/completions"]
    argv += ["--model", str(model), "--served-model-name", lab.plan.model_name, "--dataset-name", "random"]
    argv += ["--random-input-len", "64", "--random-output-len", "4", "--num-prompts", "24"]
    argv += ["--max-concurrency", "4", "--save-result", "--result-dir", str(folder)]
    argv += ["--result-filename", "result.json", "--disable-tqdm"]
    env = {**os.environ, "OPENAI_API_KEY": key}

    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600, cwd=folder, env=env)

    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((folder / "result.json").read_text())
    return result["completed"], result.get("failed", 0)
