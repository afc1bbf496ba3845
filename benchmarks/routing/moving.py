"""A run once more by who has seen it: sessions moved from the busiest replicas until all are about even.

The traffic, the engines' caches and their queues are those of the run; only where requests go is changed, and
each change is run. So what comes out can be done, by who knows what will come.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cells import Cell, traffic
from peers import Build

from hypertier.figures import quantile
from hypertier.simulation.cluster import Outcome, simulate
from hypertier.simulation.engine import Job
from hypertier.simulation.policy import Prompt
from hypertier.simulation.trace import BLOCK_TOKENS

MAX_RUNS = 60
NUM_TARGETS = 4
"""Replicas with least work that a part may go to."""
AIM = 0.98
"""Of the limit: requests do not take again what they took."""


class Planned:
    """Sends each request where the plan says, by its number in order of arrival."""

    shares = False

    def __init__(self, plan: Sequence[int]) -> None:
        self._plan = plan

    def pick(self, prompt: Prompt, now: float) -> int:
        """As planned."""
        return self._plan[prompt.number]

    def sent(self, prompt: Prompt, replica: int, now: float) -> None:
        """Nothing to note, here and below."""

    def first_token(self, prompt: Prompt, replica: int, now: float) -> None:
        """Nothing."""

    def finished(self, prompt: Prompt, replica: int, now: float) -> None:
        """Nothing."""

    def stored(self, replica: int, blocks: Sequence[int]) -> None:
        """Nothing."""

    def removed(self, replica: int, blocks: Sequence[int]) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Part:
    """Requests of one session on one replica, from some request on, and the seconds of computing them."""

    jobs: Sequence[Job]
    seconds: float


def apart(busy_seconds: Sequence[float]) -> float:
    """Busiest over mean."""
    return max(busy_seconds) / statistics.fmean(busy_seconds)


def p90(outcome: Outcome) -> float:
    """Of seconds to the first token."""
    return quantile([job.first_token_at - job.request.at for job in outcome.jobs], 0.9)


def evened(cell: Cell, seed: int, build: Build, slack: float, limit: float) -> float:
    """Busiest over mean, the lowest found where P90 is at most `slack` times that of the policy's own run.

    It is looked for until it is within `limit`, or for `MAX_RUNS` runs. Where many moves at once do not help,
    fewer are tried, and then one alone: the best, the next best, and so on.
    """
    trace = traffic(cell, seed)
    best = simulate(trace, cell.spec, build, seed)
    longest = slack * p90(best)
    spec = replace(cell.spec, events=False, num_routers=1)
    num_moves, place = cell.num_replicas, 0
    for _ in range(MAX_RUNS):
        if apart(best.busy_seconds) <= limit:
            break
        planned = Planned(moved(cell, best, num_moves, AIM * limit, place))
        outcome = simulate(trace, spec, lambda _, planned=planned: planned, seed)
        if apart(outcome.busy_seconds) < apart(best.busy_seconds) and p90(outcome) <= longest:
            best, place = outcome, 0
        elif num_moves > 1:
            num_moves //= 2
        else:
            place += 1
    return apart(best.busy_seconds)


def moved(cell: Cell, outcome: Outcome, num_moves: int, limit: float, place: int = 0) -> list[int]:
    """Where each request went, with so many parts moved at most, each from whom has most to whom has little.

    Of the parts that bring both to within `limit` of the mean, the one goes of which least is computed again;
    if there is none, the one that brings them nearest. The first move is the one in that `place`.

    What a part takes elsewhere is guessed: as much as here, and what its first request found cached, unless
    other prompts there have it as well. Moving ends where busiest over mean is within `limit`.
    """
    profile = cell.spec.profile
    jobs = [[job for job in outcome.jobs if job.replica == i] for i in range(cell.num_replicas)]
    alone = [
        [profile.prefill_seconds(job.cached_tokens, job.request.input_tokens) for job in those]
        for those in jobs
    ]
    pace = [busy / sum(of) if of else 1.0 for busy, of in zip(outcome.busy_seconds, alone, strict=True)]
    blocks = [{block for job in those for block in job.request.blocks} for those in jobs]
    loads = list(outcome.busy_seconds)
    plan = [job.replica for job in outcome.jobs]

    def again(part: Part, target: int) -> float:
        """Seconds for what the part's first request found cached, and does not find there."""
        first = part.jobs[0]
        num_held = next(
            (i for i, block in enumerate(first.request.blocks) if block not in blocks[target]),
            len(first.request.blocks),
        )
        start = min(num_held * BLOCK_TOKENS, first.cached_tokens)
        return profile.prefill_seconds(start, first.cached_tokens) if start < first.cached_tokens else 0.0

    for _ in range(num_moves):
        order = sorted(range(len(loads)), key=loads.__getitem__)
        busiest, targets = order[-1], order[: min(NUM_TARGETS, len(order) - 1)]
        enough = limit * statistics.fmean(loads)
        if loads[busiest] <= enough:
            break
        here = [job for job in jobs[busiest] if plan[job.number] == busiest]
        choices: list[tuple[float, float, float, int, Part]] = []
        for part in parts(here, cell):
            left = loads[busiest] - part.seconds * pace[busiest]
            for target in targets:
                extra = again(part, target)
                grown = loads[target] + (part.seconds + extra) * pace[target]
                choices.append((max(left, grown, enough), extra, part.seconds, target, part))
        choices.sort(key=lambda choice: choice[:4])
        if place >= len(choices) or choices[place][0] >= loads[busiest]:
            break
        _, extra, seconds, target, part = choices[place]
        place = 0
        loads[busiest] -= seconds * pace[busiest]
        loads[target] += (seconds + extra) * pace[target]
        for job in part.jobs:
            plan[job.number] = target
            blocks[target].update(job.request.blocks)
    return plan


def parts(jobs: Sequence[Job], cell: Cell) -> Iterator[Part]:
    """Every session's requests, and their last half, quarter and so on."""
    sessions: dict[str, list[Job]] = {}
    for job in jobs:
        sessions.setdefault(job.request.session, []).append(job)
    seconds = cell.spec.profile.prefill_seconds
    for those in sessions.values():
        while those:
            yield Part(those, sum(seconds(job.cached_tokens, job.request.input_tokens) for job in those))
            those = those[(len(those) + 1) // 2 :]
