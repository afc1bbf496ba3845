"""Routers in front of replicas, under a simulated clock: what becomes of each request of a trace."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from hypertier.router.peers.peers import BATCH_SECONDS
from hypertier.simulation.channels import NETWORK_SECONDS, Channels, Speaker
from hypertier.simulation.engine import Engine, EngineProfile, Job, SharedStore
from hypertier.simulation.policy import Policy, Prompt, Scrape, World
from hypertier.simulation.trace import Trace

SCRAPE_SECONDS = 0.05
"""How old a scraped metric may be; llm-d's default refresh interval.

https://github.com/llm-d/llm-d-router (read 2026-12-01)
"""
SHARE_SECONDS = BATCH_SECONDS + NETWORK_SECONDS
"""How long news takes from one router to another, also for peers that tell one another of requests."""

ARRIVAL, NEWS, PREFILLED, ANSWERED = range(4)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What the traffic meets. `believed_capacity` multiplies the cache size that policies are told.

    `cut` are two shares of the time that requests come: in between, routers hear nothing of one another.
    """

    num_replicas: int
    profile: EngineProfile = field(default_factory=EngineProfile)
    num_routers: int = 1
    events: bool = False
    believed_capacity: float = 1.0
    l2_tokens: int = 0
    slow_replicas: int = 0
    slowness: float = 2.0
    cut: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of every request, in order of arrival, and how long each replica computed prompts."""

    jobs: Sequence[Job]
    busy_seconds: Sequence[float]
    seconds: float


def simulate(trace: Trace, spec: ClusterSpec, build: Callable[[World], Policy], seed: int = 0) -> Outcome:
    """Send `trace` through routers of the policy that `build` makes, until all is answered."""
    l2 = SharedStore(spec.l2_tokens) if spec.l2_tokens else None
    engines = [
        Engine(spec.profile, seed * 7919 + i, l2, spec.slowness if i < spec.slow_replicas else 1.0)
        for i in range(spec.num_replicas)
    ]
    world = World(
        spec.num_replicas,
        round(spec.profile.cache_tokens * spec.believed_capacity),
        spec.events,
        _scraper(engines),
        seed,
    )
    routers = [build(world) for _ in range(spec.num_routers)]
    return _Run(trace, engines, routers, spec, seed).outcome()


class _Run:
    def __init__(
        self, trace: Trace, engines: list[Engine], routers: list[Policy], spec: ClusterSpec, seed: int
    ) -> None:
        self._engines = engines
        self._routers = routers
        self._events = spec.events
        draw = random.Random(seed)
        self._jobs = [Job(request, i, draw.randrange(len(routers))) for i, request in enumerate(trace)]
        self._heap: list[tuple[float, int, int, Callable[[float], None]]] = []
        self._order = count()
        first, last = trace[0].at, trace[-1].at
        cut = spec.cut and (first + spec.cut[0] * (last - first), first + spec.cut[1] * (last - first))
        speakers = [router for router in routers if isinstance(router, Speaker)]
        self._channels = Channels(speakers, lambda when, act: self._at(when, NEWS, act), cut)

    def outcome(self) -> Outcome:
        end = 0.0
        arrivals = iter(self._jobs)
        job = next(arrivals, None)
        while job is not None or self._heap:
            if job is not None and (not self._heap or job.request.at <= self._heap[0][0]):
                self._arrive(job, job.request.at)
                job = next(arrivals, None)
            else:
                end, _, _, act = heapq.heappop(self._heap)
                act(end)
        return Outcome(self._jobs, [engine.busy_seconds for engine in self._engines], end)

    def _at(self, when: float, kind: int, act: Callable[[float], None]) -> None:
        heapq.heappush(self._heap, (when, kind, next(self._order), act))

    def _tell(self, job: Job, now: float, tell: Callable[[Policy, float], None]) -> None:
        """Tell the job's own router now, and those it shares with a moment later."""
        own = self._routers[job.router]
        tell(own, now)
        if own.shares:
            for router in self._routers:
                if router is not own:
                    self._at(now + SHARE_SECONDS, NEWS, lambda at, router=router: tell(router, at))  # type: ignore[misc]
        self._channels.flush(job.router, now)

    def _arrive(self, job: Job, now: float) -> None:
        prompt = _seen(job)
        replica = job.replica = self._routers[job.router].pick(prompt, now)
        self._tell(job, now, lambda router, at: router.sent(prompt, replica, at))
        self._engines[replica].queue.append(job)
        self._start(replica, now)

    def _start(self, replica: int, now: float) -> None:
        seconds = self._engines[replica].start_next()
        if seconds is not None:
            self._at(now + seconds, PREFILLED, lambda at: self._prefilled(replica, at))

    def _prefilled(self, replica: int, now: float) -> None:
        job, seconds, gained, lost = self._engines[replica].finish_prefill()
        job.first_token_at = now
        if self._events:
            for router in self._routers:
                router.stored(replica, gained)
                router.removed(replica, lost)
        prompt = _seen(job)
        self._tell(job, now, lambda router, at: router.first_token(prompt, replica, at))
        self._at(now + seconds, ANSWERED, lambda at: self._answered(job, at))
        self._start(replica, now)

    def _answered(self, job: Job, now: float) -> None:
        self._engines[job.replica].finish_answer(job)
        prompt = _seen(job)
        self._tell(job, now, lambda router, at: router.finished(prompt, job.replica, at))


def _seen(job: Job) -> Prompt:
    request = job.request
    return Prompt(job.number, request.input_tokens, request.blocks, request.session)


def _scraper(engines: Sequence[Engine]) -> Callable[[float], Sequence[Scrape]]:
    """Every engine's metrics, read anew when the last reading is older than `SCRAPE_SECONDS`."""
    last: list[Scrape] = []
    read_at = -1.0

    def scrape(now: float) -> Sequence[Scrape]:
        nonlocal last, read_at
        if not last or now - read_at >= SCRAPE_SECONDS:
            read_at = now
            last = [
                Scrape(
                    len(engine.queue),
                    engine.num_decoding + (engine.prefilling is not None),
                    min(1.0, engine.decoding_tokens / engine.profile.cache_tokens),
                    engine.num_prompts,
                    engine.prompt_tokens,
                )
                for engine in engines
            ]
        return last

    return scrape
