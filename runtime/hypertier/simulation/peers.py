"""What other routers do, written anew from their descriptions, at their documented defaults.

Read 2026-12-01: https://github.com/vllm-project/production-stack, https://github.com/vllm-project/router,
https://github.com/sgl-project/sglang (its router), https://github.com/llm-d/llm-d-router,
https://github.com/ai-dynamo/dynamo, https://github.com/vllm-project/aibrix, and Ray Serve's
PrefixCacheAffinityRouter.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

from hypertier.router.kv.holders import members
from hypertier.simulation.policy import Policy, Prompt, Tracking, World
from hypertier.simulation.trace import BLOCK_TOKENS


class _Peer(Tracking):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.random = random.Random(world.seed)

    def least(self, values: Sequence[float], among: Sequence[int] | None = None) -> int:
        """The replica of the lowest value, any of the lowest."""
        replicas = range(len(values)) if among is None else among
        lowest = min(values[replica] for replica in replicas)
        return self.random.choice([replica for replica in replicas if values[replica] == lowest])


class RoundRobin(_Peer):
    """Every replica in turn."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._next = self.random.randrange(world.num_replicas)

    def pick(self, prompt: Prompt, now: float) -> int:
        """The next one."""
        self._next = (self._next + 1) % self.world.num_replicas
        return self._next


class SessionHash(_Peer):
    """Every session's requests to the replica that its hash names."""

    def pick(self, prompt: Prompt, now: float) -> int:
        """A draw from the session's name, the same at every router."""
        return random.Random(prompt.session).randrange(self.world.num_replicas)


class PrefixTrie(_Peer):
    """production-stack's prefixaware: any replica that was ever sent the longest common beginning."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._capacity_blocks = 1 << 62
        self._all = (1 << world.num_replicas) - 1

    def pick(self, prompt: Prompt, now: float) -> int:
        """Any of the deepest node's endpoints; load is not looked at."""
        groups = self.holders.groups(prompt.blocks)
        return self.random.choice(list(members(groups[0][1] if groups else self._all)))


class CacheAware(_Peer):
    """sglang-router's, smg's and vllm-router's cache_aware."""

    def __init__(self, world: World, match_ratio: float = 0.3, apart: int = 64, times: float = 1.5) -> None:
        super().__init__(world)
        self._match_ratio, self._apart, self._times = match_ratio, apart, times

    def pick(self, prompt: Prompt, now: float) -> int:
        """The best match, unless it is a poor one or the loads are far apart: then the least load."""
        most, fewest = max(self.in_flight), min(self.in_flight)
        if most - fewest > self._apart and most > self._times * fewest:
            return self.least(self.in_flight)
        held = self.held_tokens(prompt)
        best = max(held)
        if best / prompt.tokens > self._match_ratio:
            return self.least(self.in_flight, [i for i, tokens in enumerate(held) if tokens == best])
        return self.least(self.in_flight)


class LoadAware(_Peer):
    """production-stack's loadaware: the matched share less the load above the mean."""

    def __init__(self, world: World, beta: float = 1.0) -> None:
        super().__init__(world)
        self._beta = beta

    def pick(self, prompt: Prompt, now: float) -> int:
        """matched / prompt - beta * (load - mean) / max(1, mean), the most of it."""
        mean = statistics.fmean(self.in_flight)
        held = self.held_tokens(prompt)
        costs = [
            self._beta * (load - mean) / max(1.0, mean) - tokens / prompt.tokens
            for load, tokens in zip(self.in_flight, held, strict=True)
        ]
        return self.least(costs)


class WeightedScorers(_Peer):
    """llm-d's scheduler: queue, KV memory and prefix, each scored 0 to 1 and weighted."""

    def __init__(self, world: World, queue: float = 2.0, kv: float = 2.0, prefix: float = 3.0) -> None:
        super().__init__(world)
        self._weights = queue, kv, prefix

    def pick(self, prompt: Prompt, now: float) -> int:
        """The highest sum."""
        scraped = self.world.scrape(now)
        queue, kv, prefix = self._weights
        waiting = [metrics.waiting for metrics in scraped]
        low, spread = min(waiting), max(waiting) - min(waiting)
        held = self.held_tokens(prompt)
        costs = [
            (queue * (metrics.waiting - low) / spread if spread else 0.0)
            + kv * metrics.kv_usage_ratio
            - prefix * tokens / prompt.tokens
            for metrics, tokens in zip(scraped, held, strict=True)
        ]
        return self.least(costs)


class _Prefilling(_Peer):
    """Keeps the tokens that each replica has to compute for first tokens, and the blocks it decodes."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.prefill = [0] * world.num_replicas
        self.decode = [0] * world.num_replicas
        self._new: dict[int, int] = {}

    def sent(self, prompt: Prompt, replica: int, now: float) -> None:
        """Count the tokens to compute."""
        new = prompt.tokens - self.held_tokens(prompt)[replica]
        self._new[prompt.number] = new
        self.prefill[replica] += new
        self.decode[replica] += -(-prompt.tokens // BLOCK_TOKENS)
        super().sent(prompt, replica, now)

    def first_token(self, prompt: Prompt, replica: int, now: float) -> None:
        """They are computed."""
        self.prefill[replica] -= self._new.pop(prompt.number)

    def finished(self, prompt: Prompt, replica: int, now: float) -> None:
        """Its blocks are free."""
        self.decode[replica] -= -(-prompt.tokens // BLOCK_TOKENS)
        super().finished(prompt, replica, now)


class KvRouter(_Prefilling):
    """Dynamo's: prefill blocks, weighed, and decode blocks; its routers tell one another of requests."""

    shares = True

    def __init__(self, world: World, overlap: float = 1.0) -> None:
        super().__init__(world)
        self._overlap = overlap

    def pick(self, prompt: Prompt, now: float) -> int:
        """The lowest cost."""
        held = self.held_tokens(prompt)
        blocks = prompt.tokens / BLOCK_TOKENS
        costs = [
            self._overlap * (prefill + prompt.tokens - tokens) / BLOCK_TOKENS + decode + blocks
            for prefill, decode, tokens in zip(self.prefill, self.decode, held, strict=True)
        ]
        return self.least(costs)


class LMetric(_Prefilling):
    """vllm-router's kv_aware: prefill tokens to compute, times the requests that share the engine."""

    def pick(self, prompt: Prompt, now: float) -> int:
        """The lowest product."""
        held = self.held_tokens(prompt)
        costs = [
            float((prompt.tokens - tokens + prefill) * (load + 1))
            for prefill, load, tokens in zip(self.prefill, self.in_flight, held, strict=True)
        ]
        return self.least(costs)


class MatchedPods(_Peer):
    """AIBrix's prefix-cache: the best match among pods no busier than the mean and one deviation."""

    def __init__(self, world: World, apart: int = 8) -> None:
        super().__init__(world)
        self._apart = apart

    def pick(self, prompt: Prompt, now: float) -> int:
        """Least requests where the pods are too far apart or none matches."""
        loads = self.in_flight
        if max(loads) - min(loads) > self._apart:
            return self.least(loads)
        limit = statistics.fmean(loads) + statistics.pstdev(loads)
        held = self.held_tokens(prompt)
        fit = [i for i, load in enumerate(loads) if load <= limit and held[i]]
        if not fit:
            return self.least(loads)
        best = max(held[i] for i in fit)
        return self.least(loads, [i for i in fit if held[i] == best])


class PrefixAffinity(_Peer):
    """Ray Serve's: the longest match of a tenth or more, else the replica that holds least."""

    def __init__(self, world: World, apart: float = float("inf")) -> None:
        super().__init__(world)
        self._apart = apart
        self._sizes = [0] * world.num_replicas

    def pick(self, prompt: Prompt, now: float) -> int:
        """Power of two choices where the queues are further apart than `apart`."""
        if max(self.in_flight) - min(self.in_flight) > self._apart:
            two = self.random.sample(range(self.world.num_replicas), min(2, self.world.num_replicas))
            return self.least(self.in_flight, two)
        held = self.held_tokens(prompt)
        best = max(held)
        if best / prompt.tokens < 0.1:
            return self.least(self._sizes)
        return self.least(self.in_flight, [i for i, tokens in enumerate(held) if tokens == best])

    def sent(self, prompt: Prompt, replica: int, now: float) -> None:
        """Note how much the replica's tree grows."""
        self._sizes[replica] += prompt.tokens - self.held_tokens(prompt)[replica]
        super().sent(prompt, replica, now)


PEERS: dict[str, Callable[[World], Policy]] = {
    "round-robin": RoundRobin,
    "session-hash": SessionHash,
    "production-stack-prefixaware": PrefixTrie,
    "production-stack-loadaware": LoadAware,
    "sglang-cache-aware": CacheAware,
    "llm-d": WeightedScorers,
    "dynamo": KvRouter,
    "vllm-kv-aware": LMetric,
    "aibrix": MatchedPods,
    "ray": PrefixAffinity,
}
"""Name -> policy at its documented defaults."""
