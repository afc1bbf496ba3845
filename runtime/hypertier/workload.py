"""Requests for a measurement: prompts that begin with one of a few documents and end as no other does."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypertier.errors import ConfigError

WORDS = (
    "block",
    "cache",
    "engine",
    "hit",
    "key",
    "miss",
    "prefix",
    "replica",
    "router",
    "tier",
    "token",
    "value",
)
QUESTION_CHARACTERS = 32
MIN_PROMPT_TOKENS = 2 * QUESTION_CHARACTERS


@dataclass(frozen=True)
class Workload:
    """What to send: `requests`, so many at once, each beginning with one of `prefixes` documents."""

    requests: int = 40
    concurrency: int = 4
    prefixes: int = 4
    prompt_tokens: int = 2000
    max_tokens: int = 16
    seed: int = 0

    def check(self, longest: int, why: str = "") -> None:
        """Refuse what can't be sent; `longest` is what a prompt may have, for the reason `why`.

        Raises:
            ConfigError: names the flag.
        """
        for flag in ("requests", "concurrency", "prefixes", "max_tokens"):
            if getattr(self, flag) < 1:
                raise ConfigError(f"--{flag.replace('_', '-')}", getattr(self, flag), "1 or more")
        if not MIN_PROMPT_TOKENS <= self.prompt_tokens <= longest:
            raise ConfigError("--prompt-tokens", self.prompt_tokens, f"{MIN_PROMPT_TOKENS} to {longest}{why}")


def prompts(workload: Workload, salt: str = "", characters_per_token: float = 1.0) -> list[str]:
    """The prompts, shuffled over their documents; the same for the same workload and salt.

    Another salt makes other documents in the same order.
    """
    chosen = random.Random(workload.seed)
    length = max(MIN_PROMPT_TOKENS, round(workload.prompt_tokens * characters_per_token))
    documents = [
        text(random.Random(f"{workload.seed}/{salt}{number}"), length - QUESTION_CHARACTERS)
        for number in range(workload.prefixes)
    ]
    order = [documents[number % workload.prefixes] for number in range(workload.requests)]
    chosen.shuffle(order)
    return [document + text(chosen, QUESTION_CHARACTERS) for document in order]


def text(chosen: random.Random, num_characters: int) -> str:
    """Words, cut to length."""
    words = chosen.choices(WORDS, k=num_characters // 4 + 1)  # the shortest takes four, with its space
    return " ".join(words)[: num_characters - 1].ljust(num_characters)
