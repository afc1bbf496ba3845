"""One replica: an LRU of blocks, a queue of prompts computed one by one, and answers that slow it down.

The model is a simple one and is not validated on GPUs. Prompts are computed in order of arrival, as a
scheduler that fills its token budget with the oldest prompt does; time is linear in the new tokens plus
attention over what is before them; every running answer drags by a constant. What is left out: paged memory
that runs full of answers, preemption, and batching of several short prompts in one step.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from hypertier.simulation.trace import BLOCK_TOKENS, TracedRequest


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """How fast an engine is, and how much it keeps.

    The defaults are of the order of Llama-3.1-70B on eight H100: 140 GFLOP a token, and 2.6 MFLOP a token
    for each token of context, at half of the GPUs' peak. `cache_tokens` is the GPU's and L1's together.
    `noise` is the standard deviation of the logarithm of a prefill's time. `l2_tokens_per_second` is the
    rate at which blocks come from L2.
    """

    tokens_per_second: float = 20_000.0
    attention_tokens: float = 53_000.0
    overhead_seconds: float = 0.015
    decode_seconds: float = 0.03
    decode_drag: float = 1 / 256
    cache_tokens: int = 400_000
    noise: float = 0.1
    l2_tokens_per_second: float = 25_000.0

    def prefill_seconds(self, start: int, end: int) -> float:
        """Time to compute the tokens from `start` to `end` of a prompt, alone on the engine."""
        context = (start + end) / 2
        return self.overhead_seconds + (end - start) / self.tokens_per_second * (
            1 + context / self.attention_tokens
        )


class SharedStore:
    """L2: one LRU of blocks that every replica reads and writes."""

    def __init__(self, capacity_tokens: int) -> None:
        self._capacity = capacity_tokens // BLOCK_TOKENS
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def num_held(self, blocks: Sequence[int], start: int) -> int:
        """How many of `blocks` from `start` on are here without a gap."""
        count = start
        while count < len(blocks) and blocks[count] in self._blocks:
            count += 1
        return count - start

    def store(self, blocks: Sequence[int]) -> None:
        """Keep `blocks`, forgetting what was used longest ago."""
        for block in reversed(blocks):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)


@dataclass(slots=True)
class Job:
    """A request on its way: who routes it, and what became of it. Times are seconds of the clock."""

    request: TracedRequest
    number: int
    router: int = 0
    replica: int = -1
    cached_tokens: int = 0
    l2_tokens: int = 0
    first_token_at: float = 0.0


class Engine:
    """One replica. `slowness` multiplies every time."""

    def __init__(
        self, profile: EngineProfile, seed: int, l2: SharedStore | None = None, slowness: float = 1.0
    ) -> None:
        self.profile = profile
        self.queue: deque[Job] = deque()
        self.prefilling: Job | None = None
        self.num_decoding = 0
        self.decoding_tokens = 0
        self.busy_seconds = 0.0
        self.num_prompts = 0
        self.prompt_tokens = 0
        self._cache: OrderedDict[int, None] = OrderedDict()
        self._capacity = profile.cache_tokens // BLOCK_TOKENS
        self._random = random.Random(seed)
        self._l2 = l2
        self._slowness = slowness

    def start_next(self) -> float | None:
        """Take the oldest prompt, if the engine is free; return the seconds that it takes."""
        if self.prefilling is not None or not self.queue:
            return None
        job = self.prefilling = self.queue.popleft()
        request, profile = job.request, self.profile
        held = self._held(request.blocks)
        cached = min(held * BLOCK_TOKENS, request.input_tokens - 1)
        seconds = 0.0
        if self._l2 is not None and profile.l2_tokens_per_second > profile.tokens_per_second:
            more = self._l2.num_held(request.blocks[: request.input_tokens // BLOCK_TOKENS], held)
            job.l2_tokens = min((held + more) * BLOCK_TOKENS, request.input_tokens - 1) - cached
            seconds = job.l2_tokens / profile.l2_tokens_per_second
        job.cached_tokens = cached + job.l2_tokens
        seconds += profile.prefill_seconds(job.cached_tokens, request.input_tokens)
        seconds *= (1 + profile.decode_drag * self.num_decoding) * self._slowness
        seconds *= self._random.lognormvariate(0.0, profile.noise)
        self.busy_seconds += seconds
        return seconds

    def finish_prefill(self) -> tuple[Job, float, list[int], list[int]]:
        """The prompt is computed.

        Returns the job, the seconds that its answer takes, and the blocks that the cache gained and lost.
        """
        job = self.prefilling
        if job is None:
            raise RuntimeError("no prompt is being computed")
        self.prefilling = None
        request = job.request
        full = request.blocks[: request.input_tokens // BLOCK_TOKENS]
        gained, lost = self._store(full)
        if self._l2 is not None:
            self._l2.store(full)
        self.num_decoding += 1
        self.decoding_tokens += request.input_tokens
        drag = 1 + self.profile.decode_drag * self.num_decoding
        return job, request.output_tokens * self.profile.decode_seconds * drag * self._slowness, gained, lost

    def finish_answer(self, job: Job) -> None:
        """The answer's last token is out; it is now that the engine counts the prompt."""
        self.num_prompts += 1
        self.prompt_tokens += job.request.input_tokens
        self.num_decoding -= 1
        self.decoding_tokens -= job.request.input_tokens

    def _held(self, blocks: Sequence[int]) -> int:
        count = 0
        for block in blocks:
            if block not in self._cache:
                break
            count += 1
        return count

    def _store(self, blocks: Sequence[int]) -> tuple[list[int], list[int]]:
        """Touch `blocks`, last first, so that no block outlives the ones before it."""
        cache = self._cache
        gained = []
        for block in reversed(blocks):
            if block in cache:
                cache.move_to_end(block)
            else:
                cache[block] = None
                gained.append(block)
        lost = [cache.popitem(last=False)[0] for _ in range(len(cache) - self._capacity)]
        return gained, lost
