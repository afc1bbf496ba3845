"""Generated traffic of five kinds, each from a seed; the shapes are those of published workloads.

Lengths follow the means that Mooncake's conversation and tool-and-agent traces have, and the profiles of
production-stack's multi-round QA and of llm-d's shared prefixes:
https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release/traces,
https://github.com/vllm-project/production-stack/tree/main/benchmarks/multi-round-qa,
https://github.com/llm-d/llm-d-benchmark (all read 2026-12-01).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from hypertier.simulation.trace import BLOCK_TOKENS, TracedRequest


class _Prompts:
    """Gives every run of content its own block names, and remembers the prompt of each session."""

    def __init__(self, seed: int, name: str) -> None:
        self.random = random.Random(f"{name}/{seed}")
        self._next = 0

    def length(self, mean: float, spread: float = 0.6) -> int:
        """A length of lognormal spread around `mean` tokens, at least 1."""
        return max(1, round(self.random.lognormvariate(math.log(mean) - spread**2 / 2, spread)))

    def extend(self, blocks: tuple[int, ...], old_tokens: int, new_tokens: int) -> tuple[int, ...]:
        """The blocks of a prompt that grew from `old_tokens` to `new_tokens`; full ones stay."""
        kept = blocks[: old_tokens // BLOCK_TOKENS]
        count = -(-new_tokens // BLOCK_TOKENS) - len(kept)
        self._next += count
        return kept + tuple(range(self._next - count, self._next))


@dataclass(frozen=True)
class _Chat:
    """Sessions of turns: mean lengths in tokens, and the mean pause between an answer and the next turn."""

    num_systems: int
    system_tokens: float
    first_tokens: float
    mean_turns: float
    turn_tokens: float
    output_tokens: float
    pause_seconds: float


CONVERSATION = _Chat(10, 1200, 12_000, 5, 2500, 343, 40)
AGENT = _Chat(20, 6000, 400, 12, 700, 182, 4)
MULTI_ROUND = _Chat(1, 1000, 18_000, 10, 150, 100, 30)
REQUESTS_PER_SECOND = 3.0


def conversation(seed: int, num_requests: int) -> list[TracedRequest]:
    """Chats of some turns with people who think in between, behind one of ten short system prompts."""
    return _sessions("conversation", seed, num_requests, CONVERSATION)


def agent(seed: int, num_requests: int) -> list[TracedRequest]:
    """Agents that call tools in quick steps, behind one of twenty long prompts of instructions and tools."""
    return _sessions("agent", seed, num_requests, AGENT)


def multi_round(seed: int, num_requests: int) -> list[TracedRequest]:
    """Rounds of short questions on a long history of one's own, behind one system prompt of all."""
    return _sessions("multi_round", seed, num_requests, MULTI_ROUND)


def _sessions(name: str, seed: int, num_requests: int, chat: _Chat) -> list[TracedRequest]:
    prompts = _Prompts(seed, name)
    draw = prompts.random
    systems = [
        (tokens, prompts.extend((), 0, tokens))
        for tokens in (prompts.length(chat.system_tokens, 0.3) for _ in range(chat.num_systems))
    ]
    seconds = num_requests / REQUESTS_PER_SECOND
    requests: list[TracedRequest] = []
    number = 0
    while len(requests) < num_requests:
        tokens, blocks = systems[min(int(draw.expovariate(3.0 / chat.num_systems)), chat.num_systems - 1)]
        at = draw.uniform(-chat.mean_turns * chat.pause_seconds, seconds)
        grow = prompts.length(chat.first_tokens)
        number += 1
        for _ in range(1 + int(draw.expovariate(1.0 / (chat.mean_turns - 1)))):
            blocks = prompts.extend(blocks, tokens, tokens + grow)
            tokens += grow
            output = prompts.length(chat.output_tokens)
            if 0 <= at < seconds and tokens <= 120_000:
                requests.append(TracedRequest(at, tokens, output, blocks, f"s{number}"))
            grow = output + prompts.length(chat.turn_tokens)
            at += output * 0.03 + draw.expovariate(1.0 / chat.pause_seconds)
    return sorted(requests, key=lambda request: request.at)[:num_requests]


def document(seed: int, num_requests: int) -> list[TracedRequest]:
    """Questions on two hundred long documents, some of which are asked about far more often than others."""
    prompts = _Prompts(seed, "document")
    documents = [
        (tokens, prompts.extend((), 0, tokens))
        for tokens in (min(prompts.length(22_000), 110_000) for _ in range(200))
    ]
    weights = [1.0 / (rank + 2) ** 0.8 for rank in range(len(documents))]
    return _questions(prompts, documents, weights, num_requests, 200.0, 300.0)


def shared_system_prompt(seed: int, num_requests: int) -> list[TracedRequest]:
    """Single questions behind one of 150 system prompts of 6k tokens; all of them begin alike."""
    prompts = _Prompts(seed, "shared_system_prompt")
    common = prompts.extend((), 0, 2 * BLOCK_TOKENS)
    systems = [(6000, prompts.extend(common, 2 * BLOCK_TOKENS, 6000)) for _ in range(150)]
    weights = [1.0 / (rank + 10) for rank in range(len(systems))]
    return _questions(prompts, systems, weights, num_requests, 1200.0, 200.0)


def _questions(
    prompts: _Prompts,
    contexts: list[tuple[int, tuple[int, ...]]],
    weights: list[float],
    num_requests: int,
    question_tokens: float,
    output_tokens: float,
) -> list[TracedRequest]:
    draw = prompts.random
    at = 0.0
    requests: list[TracedRequest] = []
    for _ in range(num_requests):
        at += draw.expovariate(REQUESTS_PER_SECOND)
        number = draw.choices(range(len(contexts)), weights)[0]
        tokens, blocks = contexts[number]
        total = tokens + prompts.length(question_tokens)
        requests.append(
            TracedRequest(
                at, total, prompts.length(output_tokens), prompts.extend(blocks, tokens, total), f"c{number}"
            )
        )
    return requests


BUSY_LOAD = {
    "conversation": 1.3,
    "agent": 3.0,
    "document": 2.0,
    "multi_round": 2.0,
    "shared_system_prompt": 2.0,
}
"""The load at which waiting begins to matter: engines are busy for a quarter to half of the time."""

WORKLOADS: dict[str, Callable[[int, int], list[TracedRequest]]] = {
    "conversation": conversation,
    "agent": agent,
    "document": document,
    "multi_round": multi_round,
    "shared_system_prompt": shared_system_prompt,
}
"""Name -> generator of (seed, number of requests); about three requests a second, in order of time."""
