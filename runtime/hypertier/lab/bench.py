"""A small load on a running lab: what its tiers and its router do to the time to the first token.

The load is closed: each of `concurrency` clients sends its next request when its last one is answered.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from hypertier.errors import LabError
from hypertier.figures import quantile
from hypertier.lab.client import Answer, ask
from hypertier.lab.measuring import counts_of_running, served_replica
from hypertier.lab.metrics import TIER_NAMES
from hypertier.lab.rules import Place
from hypertier.lab.state import LabState
from hypertier.workload import Workload, prompts

TEMPLATE_CHARACTERS = 32  # what the chat template adds to a prompt, rounded up
QUANTILES = (0.5, 0.9, 0.99)


def check(workload: Workload) -> None:
    """Refuse what an engine of the lab, whose tokens are characters, can't be sent.

    Raises:
        ConfigError: names the flag.
    """
    longest = Place.max_model_len - TEMPLATE_CHARACTERS - workload.max_tokens
    workload.check(
        longest, f": with --max-tokens {workload.max_tokens} an engine of the lab holds {Place.max_model_len}"
    )


@dataclass(frozen=True)
class BenchResult:
    """What came back: answers, why others failed, and the engines' count of cached tokens by source."""

    answers: tuple[Answer, ...]
    failures: tuple[str, ...]
    seconds: float
    cached_tokens: Mapping[str, int]
    served: Mapping[str, int]


def run_bench(state: LabState, workload: Workload, say: Callable[[str], None]) -> BenchResult:
    """Send the workload through the lab's router.

    Raises:
        ConfigError: a workload that cannot be sent.
    """
    check(workload)
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
