"""How much of what it was sent a replica keeps, in bytes of prompt: the right size of an index.

An engine says in its `/metrics` how many tokens its KV cache holds, and how many tokens its prompts had so
far; what a token is in bytes of prompt follows from the latter. Nothing here asks: `sizing` does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hypertier.router.replicas.replicas import Replica

START_BYTES_PER_TOKEN = 4.0
"""Until it is learned: about what English has."""
MIN_BYTES_PER_TOKEN, MAX_BYTES_PER_TOKEN = 1.0, 16.0
MIN_PROMPTS = 20
"""So many prompts between two readings say something."""
FORGET = 0.5
"""What older readings weigh beside a new one."""
MAX_TOKENS = 10**12

_CACHE = re.compile(rb"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)
_LABEL = re.compile(rb'(?:^|,)(kv_cache_size_tokens|num_gpu_blocks|block_size)="(\d{1,18})"')
_SUM = re.compile(rb"^vllm:request_prompt_tokens_sum(?:\{[^\n]*\})? (\S+)", re.MULTILINE)
_COUNT = re.compile(rb"^vllm:request_prompt_tokens_count(?:\{[^\n]*\})? (\S+)", re.MULTILINE)


class Reading(NamedTuple):
    """What `/metrics` said: tokens the KV cache holds, None where untold; prompts so far; their tokens.

    `num_ranks` data-parallel ranks stand behind the address; `block_size` is None where it is untold.
    """

    cache_tokens: int | None
    num_prompts: float
    prompt_tokens: float
    num_ranks: int = 1
    block_size: int | None = None


def read(text: bytes) -> Reading:
    """The reading in an engine's metrics; data-parallel ranks count together.

    vLLM tells `kv_cache_size_tokens` where it knows, and blocks and their size always
    (https://github.com/vllm-project/vllm/blob/main/vllm/config/cache.py, read 2026-12-01).
    """
    ranks = [
        {name.decode(): int(value) for name, value in _LABEL.findall(labels)}
        for labels in _CACHE.findall(text)
    ]
    return Reading(
        cache_tokens(ranks),
        sum(map(_number, _COUNT.findall(text))),
        sum(map(_number, _SUM.findall(text))),
        max(1, len(ranks)),
        (ranks[0].get("block_size") or None) if ranks else None,
    )


def cache_tokens(ranks: Iterable[Mapping[str, int]]) -> int | None:
    """Tokens that the KV caches of all ranks hold, by numbers among each one's labels; None where untold."""
    tokens = sum(
        rank.get("kv_cache_size_tokens") or rank.get("num_gpu_blocks", 0) * rank.get("block_size", 0)
        for rank in ranks
    )
    return min(tokens, MAX_TOKENS) if tokens > 0 else None


def _number(text: bytes) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if 0.0 <= number < math.inf else 0.0


@dataclass(slots=True)
class _Replica:
    reading: Reading
    num_done: int = 0
    bytes_done: int = 0


class CacheSizes:
    """Every replica's, as last read, and bytes per token, learned over all of them.

    L1 holds what the GPU does and more, so the larger of the two counts; `l1_tokens` is every replica's.
    """

    def __init__(self, l1_tokens: int = 0) -> None:
        self._l1_tokens = l1_tokens
        self._known: dict[Replica, _Replica] = {}
        self._bytes = 0.0
        self._tokens = 0.0

    @property
    def bytes_per_token(self) -> float:
        """Of prompts as clients write them, JSON included."""
        if not self._tokens:
            return START_BYTES_PER_TOKEN
        return min(max(self._bytes / self._tokens, MIN_BYTES_PER_TOKEN), MAX_BYTES_PER_TOKEN)

    def tokens_of(self, replica: Replica) -> int | None:
        """Tokens that the replica keeps; None where it did not say."""
        known = self._known.get(replica)
        if known is None or known.reading.cache_tokens is None:
            return None
        return max(known.reading.cache_tokens, self._l1_tokens)

    def bytes_of(self, replica: Replica) -> float:
        """Bytes of prompt that the replica keeps; infinity where it did not say."""
        tokens = self.tokens_of(replica)
        return math.inf if tokens is None else tokens * self.bytes_per_token

    def finished(self, replica: Replica, num_bytes: int) -> None:
        """The replica is done with a prompt of that length.

        vLLM counts a prompt once its request has finished (https://github.com/vllm-project/vllm, its
        vllm/v1/metrics/loggers.py, read 2026-12-02), so what waits is on neither side.
        """
        known = self._known.get(replica)
        if known is not None:
            known.num_done += 1
            known.bytes_done += num_bytes

    def learn(self, replica: Replica, reading: Reading) -> None:
        """The replica said so."""
        known = self._known.get(replica)
        if known is not None:
            before = known.reading
            num_prompts = reading.num_prompts - before.num_prompts
            tokens = reading.prompt_tokens - before.prompt_tokens
            # Means are compared, not sums: the engine counts what other routers sent, too.
            if min(num_prompts, known.num_done) >= MIN_PROMPTS and tokens > 0:
                weight = min(num_prompts, known.num_done)
                self._bytes = FORGET * self._bytes + weight * known.bytes_done / known.num_done
                self._tokens = FORGET * self._tokens + weight * tokens / num_prompts
        self._known[replica] = _Replica(reading)

    def forget(self, replica: Replica) -> None:
        """It is gone, or may come back as another."""
        self._known.pop(replica, None)
