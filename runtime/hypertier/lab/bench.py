"""A small load on a running lab: what its tiers and its router do to the time to the first token.

The load is closed: each of `concurrency` clients sends its next request when its last one is answered.
Prompts begin with one of a few shared documents and end with a question of their own.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from hypertier.errors import ConfigError, LabError
from hypertier.lab.client import Answer, ask
from hypertier.lab.measuring import counts_of_running, served_replica
from hypertier.lab.metrics import TIER_NAMES
from hypertier.lab.rules import Place
from hypertier.lab.state import LabState

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
TEMPLATE_CHARACTERS = 32  # what the chat template adds to a prompt, rounded up
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Workload:
    """What to send. A token of the lab's model is a character."""

    requests: int = 40
    concurrency: int = 4
    prefixes: int = 4
    prompt_tokens: int = 2000
    max_tokens: int = 16
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be sent.

        Raises:
            ConfigError: names the flag.
        """
        for flag in ("requests", "concurrency", "prefixes", "max_tokens"):
            if getattr(self, flag) < 1:
                raise ConfigError(f"--{flag.replace('_', '-')}", getattr(self, flag), "1 or more")
        longest = Place.max_model_len - TEMPLATE_CHARACTERS - self.max_tokens
        if not 2 * QUESTION_CHARACTERS <= self.prompt_tokens <= longest:
            raise ConfigError(
                "--prompt-tokens",
                self.prompt_tokens,
                f"{2 * QUESTION_CHARACTERS} to {longest}: with --max-tokens {self.max_tokens} an engine "
                f"of the lab holds {Place.max_model_len}",
            )


@dataclass(frozen=True)
class BenchResult:
    """What came back: answers, why others failed, and the engines' count of cached tokens by source."""

    answers: tuple[Answer, ...]
    failures: tuple[str, ...]
    seconds: float
    cached_tokens: Mapping[str, int]
    served: Mapping[str, int]


def prompts(workload: Workload) -> list[str]:
    """The prompts, shuffled over their documents; the same for the same workload."""
    chosen = random.Random(workload.seed)
    documents = [
        text(random.Random(f"{workload.seed}/{number}"), workload.prompt_tokens - QUESTION_CHARACTERS)
        for number in range(workload.prefixes)
    ]
    order = [documents[number % workload.prefixes] for number in range(workload.requests)]
    chosen.shuffle(order)
    return [document + text(chosen, QUESTION_CHARACTERS) for document in order]


def text(chosen: random.Random, num_characters: int) -> str:
    """Words, cut to length."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < num_characters:
        words.append(chosen.choice(WORDS))
    return " ".join(words)[: num_characters - 1].ljust(num_characters)


def run_bench(state: LabState, workload: Workload, say: Callable[[str], None]) -> BenchResult:
    """Send the workload through the lab's router.

    Raises:
        ConfigError: a workload that cannot be sent.
    """
    workload.check()
    before = dict(counts_of_running(state.replica_urls))
    answers: list[Answer] = []
    failures: list[str] = []
    begin = time.monotonic()
    with ThreadPoolExecutor(workload.concurrency) as pool:
        futures = [
            pool.submit(ask, state.router_url, state.model_name, prompt, max_tokens=workload.max_tokens)
            for prompt in prompts(workload)
        ]
        for number, future in enumerate(as_completed(futures), start=1):
            try:
                answers.append(future.result())
            except LabError as error:
                failures.append(str(error))
            if number % max(1, workload.requests // 10) == 0:
                say(f"{number} of {workload.requests} requests")
    seconds = time.monotonic() - begin
    cached: Counter[str] = Counter()
    for url, counts in counts_of_running(state.replica_urls):
        if url in before:
            cached.update({s: int(n) for s, n in counts.since(before[url]).cached_tokens.items()})
    numbers = Counter(served_replica(each.served_by, state.replica_urls)[0] for each in answers)
    return BenchResult(
        answers=tuple(answers),
        failures=tuple(failures),
        seconds=seconds,
        cached_tokens={TIER_NAMES.get(source, source): count for source, count in cached.items()},
        served={f"engine-{number}": count for number, count in sorted(numbers.items())},
    )


def quantile(values: Sequence[float], ratio: float) -> float:
    """The smallest of `values` that at least `ratio` of them do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(ratio * len(values)) - 1)]


def summary(result: BenchResult) -> dict[str, float | int]:
    """The figures by name; no answers have none but the counts."""
    figures: dict[str, float | int] = {"requests": len(result.answers), "failed": len(result.failures)}
    if not result.answers:
        return figures
    prompt_tokens = sum(each.prompt_tokens for each in result.answers)
    figures["seconds"] = round(result.seconds, 3)
    figures["requests_per_second"] = round(len(result.answers) / result.seconds, 3)
    for name, values in (
        ("ttft", [each.ttft_seconds for each in result.answers]),
        ("e2e", [each.seconds for each in result.answers]),
    ):
        for ratio in QUANTILES:
            figures[f"{name}_p{ratio * 100:g}_seconds"] = round(quantile(values, ratio), 4)
    figures["prompt_tokens"] = prompt_tokens
    figures["cached_ratio"] = round(sum(each.cached_tokens for each in result.answers) / prompt_tokens, 4)
    figures |= {f"cached_tokens_{name}": count for name, count in result.cached_tokens.items()}
    figures |= {f"requests_{name}": count for name, count in result.served.items()}
    return figures


def lines(figures: Mapping[str, float | int]) -> Iterator[str]:
    """The figures as text, one a line."""
    width = max(map(len, figures))
    for name, value in figures.items():
        yield (
            f"{name.ljust(width)}  {value:,}" if isinstance(value, int) else f"{name.ljust(width)}  {value:g}"
        )
