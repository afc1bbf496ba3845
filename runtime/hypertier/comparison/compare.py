"""Sends one load through several strategies of a router, in turns, and compares what came back."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from statistics import median

from hypertier.comparison.statistics import Ratio, ratio
from hypertier.errors import AnswerError
from hypertier.figures import quantile
from hypertier.verification.answer import Answer
from hypertier.verification.endpoint import STRATEGY_HEADER, Endpoint, Model
from hypertier.verification.verify import choose
from hypertier.workload import Workload, prompts, text

MAX_PROMPT_TOKENS = 200_000
PROBE_CHARACTERS = 1000
QUANTILES: Mapping[str, float] = {"ttft_p50": 0.5, "ttft_p90": 0.9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is compared: `strategies` with the first of them, in `rounds` of a `workload` each.

    Without `model` it is the endpoint's only one. Each request may take `timeout_seconds`.
    """

    strategies: Sequence[str]
    rounds: int
    workload: Workload
    model: str | None = None
    timeout_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Run:
    """One strategy's answers of one round, why others failed, and the seconds that it took."""

    strategy: str
    answers: Sequence[Answer]
    failures: Sequence[str]
    seconds: float

    def ttft(self, share: float) -> float:
        """The quantile of the time to the first token, in seconds."""
        return quantile([answer.ttft_seconds for answer in self.answers], share)


@dataclass(frozen=True, slots=True)
class Figures:
    """A strategy's medians over rounds: seconds by the names of `QUANTILES`, share of prompts that was
    cached (None where not told), requests a second, the most that one replica served of all; and its ratios
    to the first strategy, of which there are none for that one itself.
    """

    strategy: str
    seconds: Mapping[str, float]
    cached_ratio: float | None
    requests_per_second: float
    largest_share: float | None
    num_failed: int
    ratios: Mapping[str, Ratio]


@dataclass(frozen=True, slots=True)
class Report:
    """What was sent where, for how long, and what came of it; `failures` are the first of each strategy."""

    url: str
    model: str
    plan: Plan
    seconds: float
    figures: Sequence[Figures]
    failures: Sequence[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison; `say` hears of each run when it is over. `clock` is in seconds."""

    endpoint: Endpoint
    plan: Plan
    say: Callable[[str], None] = lambda text: None
    clock: Callable[[], float] = time.monotonic

    def run(self) -> Report:
        """Ask the router for each strategy once, then send all rounds.

        Raises:
            AnswerError: the router does not obey, or a whole round failed.
            ConfigError: prompts that are too long for the model.
        """
        plan, begin = self.plan, self.clock()
        model = choose(self.endpoint.models(plan.timeout_seconds), plan.model)
        check(plan.workload, model)
        characters_per_token = self._probe(model)
        runs = [
            self._run(model, round_, strategy, characters_per_token)
            for round_ in range(plan.rounds)
            for strategy in in_turn(plan.strategies, round_)
        ]
        by_strategy = {name: [run for run in runs if run.strategy == name] for name in plan.strategies}
        base = by_strategy[plan.strategies[0]]
        return Report(
            self.endpoint.url,
            model.name,
            plan,
            self.clock() - begin,
            tuple(figures(name, own, base) for name, own in by_strategy.items()),
            tuple(f"{run.strategy}: {run.failures[0]}" for run in runs if run.failures)[: len(by_strategy)],
        )

    def _probe(self, model: Model) -> float:
        """How many characters of these prompts a token has."""
        drawn = random.Random(f"{self.plan.workload.seed}/probe")
        length = min(PROBE_CHARACTERS, (model.max_tokens or PROBE_CHARACTERS * 2) // 2)
        probe = text(drawn, max(1, length))
        num_tokens: int | None = None
        for strategy in self.plan.strategies:
            answer = self._ask(model, probe, strategy, 1)
            if answer.strategy != strategy:
                raise AnswerError(
                    f"asked for {strategy}, the router chose by {answer.strategy or 'its own strategy'}",
                    "strategyByHeader: true in the router's routes lets clients choose; kvaware needs a "
                    "router that was started with it",
                )
            num_tokens = answer.prompt_tokens
        return len(probe) / num_tokens if num_tokens else 1.0

    def _run(self, model: Model, round_: int, strategy: str, characters_per_token: float) -> Run:
        workload, begin = self.plan.workload, self.clock()
        sent = prompts(workload, f"{round_}/{strategy}/", characters_per_token)
        answers: list[Answer] = []
        failures: list[str] = []
        with ThreadPoolExecutor(workload.concurrency) as pool:
            futures = [pool.submit(self._ask, model, each, strategy, workload.max_tokens) for each in sent]
            for future in as_completed(futures):
                try:
                    answers.append(future.result())
                except AnswerError as error:
                    failures.append(str(error))
        if not answers:
            raise AnswerError(f"no request of a round by {strategy} was answered; the first: {failures[0]}")
        run = Run(strategy, answers, failures, self.clock() - begin)
        self.say(
            f"round {round_ + 1} of {self.plan.rounds}, {strategy}: TTFT p50 {run.ttft(0.5):.3f} s, "
            f"{len(failures)} of {len(sent)} failed"
        )
        return run

    def _ask(self, model: Model, prompt: str, strategy: str, max_tokens: int) -> Answer:
        return self.endpoint.complete(
            model.name,
            prompt,
            headers={STRATEGY_HEADER: strategy, "x-hypertier-explain": "1"},
            timeout_seconds=self.plan.timeout_seconds,
            max_tokens=max_tokens,
            tells_likely=False,
        )


def check(workload: Workload, model: Model) -> None:
    """Refuse prompts that the model does not take. Raises ConfigError."""
    if model.max_tokens is None:
        workload.check(MAX_PROMPT_TOKENS)
    else:
        longest = min(MAX_PROMPT_TOKENS, model.max_tokens - workload.max_tokens)
        workload.check(
            longest, f": with --max-tokens {workload.max_tokens}, {model.name} holds {model.max_tokens}"
        )


def in_turn(strategies: Sequence[str], round_: int) -> Iterator[str]:
    """Each is first as often as the others: what the machine does meanwhile favours none."""
    for place in range(len(strategies)):
        yield strategies[(place + round_) % len(strategies)]


def figures(strategy: str, runs: Sequence[Run], base: Sequence[Run]) -> Figures:
    """Of a strategy's runs, a round each, against those of the first strategy."""
    own = {name: [run.ttft(share) for run in runs] for name, share in QUANTILES.items()}
    others = {name: [run.ttft(share) for run in base] for name, share in QUANTILES.items()}
    shares = [share for share in map(cached_ratio, runs) if share is not None]
    return Figures(
        strategy,
        {name: median(values) for name, values in own.items()},
        median(shares) if shares else None,
        median(len(run.answers) / run.seconds for run in runs),
        largest_share([answer.replica for run in runs for answer in run.answers]),
        sum(len(run.failures) for run in runs),
        {name: ratio(values, others[name]) for name, values in own.items()} if runs is not base else {},
    )


def cached_ratio(run: Run) -> float | None:
    """Which share of a run's prompts came from a cache; None where no answer tells."""
    told = [answer for answer in run.answers if answer.cached_tokens is not None and answer.prompt_tokens]
    if not told:
        return None
    return sum(answer.cached_tokens or 0 for answer in told) / sum(
        answer.prompt_tokens or 0 for answer in told
    )


def largest_share(replicas: Sequence[str | None]) -> float | None:
    """How much of all one replica served, the busiest; None where the router does not tell."""
    if None in replicas:
        return None
    return max(replicas.count(replica) for replica in set(replicas)) / len(replicas)
