"""From captured requests to a trace: what is kept of each, their order, their tokens and their blocks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from hypertier.simulation.captured.blocks import Blocks, Digests, digests
from hypertier.simulation.captured.lines import Exchange
from hypertier.simulation.trace import BLOCK_TOKENS

BYTES_PER_TOKEN = 4.0
"""Where no answer told its usage: a rule of thumb for English, and for nothing else."""


@dataclass(slots=True)
class _Kept:
    """Of one request: no text. Tokens are None where they are to be estimated."""

    at: float
    model: str
    prompt: Digests
    output_tokens: int | None
    output_bytes: int | None
    max_tokens: int
    session: int | None


@dataclass(slots=True)
class Holds:
    """What a trace holds; `blocks` are full ones, `seen` those of them that an earlier request had."""

    requests: int = 0
    tenants: int = 0
    models: int = 0
    sessions: int = 0
    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    blocks: int = 0
    seen: int = 0
    short: int = 0
    estimated_inputs: int = 0
    estimated_outputs: int = 0
    unknown_outputs: int = 0
    continued: int = 0
    bytes_per_token: float = BYTES_PER_TOKEN

    @property
    def seen_ratio(self) -> float:
        """Share of the blocks that were seen before."""
        return self.seen / self.blocks if self.blocks else 0.0

    @property
    def distinct_tokens(self) -> int:
        """What a cache keeps that forgets nothing."""
        return (self.blocks - self.seen) * BLOCK_TOKENS

    @property
    def best_hit_ratio(self) -> float:
        """Share of the input tokens that a cache finds which all replicas share and that forgets nothing."""
        return self.seen * BLOCK_TOKENS / self.input_tokens if self.input_tokens else 0.0


class TraceMaker:
    """Takes requests in any order, keeps a digest for every 512 bytes, and tells rows in order of time.

    With `shares_cache` prompts of different tenants share blocks. Models never do.
    """

    def __init__(self, *, shares_cache: bool = False) -> None:
        self.holds = Holds()
        self.models: Counter[str] = Counter()
        self._shares_cache = shares_cache
        self._kept: list[_Kept] = []
        self._tenants: set[str] = set()
        self._known_tokens: dict[int, int] = {}
        self._bytes: Counter[str] = Counter()  # by model, as the next, of prompts whose tokens are known
        self._tokens: Counter[str] = Counter()

    def add(self, exchange: Exchange, tenant: str, at: float) -> None:
        """One more request, which was sent at that time, in seconds."""
        prompt, usage, model = exchange.prompt, exchange.usage, exchange.model
        seed = _seed("" if self._shares_cache else tenant, model, exchange.salt)
        known = digests(prompt.text, seed)
        num_tokens = usage.input_tokens or prompt.num_tokens
        if num_tokens and known.whole not in self._known_tokens:
            self._known_tokens[known.whole] = num_tokens
            self._bytes[model] += known.num_bytes
            self._tokens[model] += num_tokens
        session = None if prompt.opening is None else digests(prompt.opening, _seed(tenant, model, "")).whole
        self._kept.append(
            _Kept(
                at,
                model,
                known,
                usage.output_tokens,
                usage.text_bytes,
                exchange.max_tokens or 0,
                session,
            )
        )
        self._tenants.add(tenant)
        self.models[model] += 1
        self.holds.continued += exchange.continues

    def rows(self) -> Iterator[str]:
        """The lines of the trace; then `holds` says what they are. To be called once."""
        holds = self.holds
        holds.tenants, holds.models = len(self._tenants), len(self.models)
        if self._tokens:
            holds.bytes_per_token = self._bytes.total() / self._tokens.total()
        told = [kept.output_tokens for kept in self._kept if kept.output_tokens is not None]
        mean_output = round(sum(told) / len(told)) if told else None
        blocks = Blocks()
        sessions: dict[int, int] = {}
        for milliseconds, kept in _timed(self._kept):
            num_input = self._input_tokens(kept)
            numbers, num_seen = blocks.number(kept.prompt, num_input)
            num_output = self._output_tokens(kept, mean_output)
            row: dict[str, int | list[int]] = {
                "timestamp": milliseconds,
                "input_length": num_input,
                "output_length": num_output,
                "hash_ids": numbers,
            }
            if kept.session is not None:
                row["session"] = sessions.setdefault(kept.session, len(sessions))
            holds.requests += 1
            holds.seconds = milliseconds / 1000
            holds.input_tokens += num_input
            holds.output_tokens += num_output
            holds.blocks += num_input // BLOCK_TOKENS
            holds.seen += num_seen
            holds.short += num_input < BLOCK_TOKENS
            yield json.dumps(row, separators=(",", ":"))
        holds.sessions = len(sessions)

    def _bytes_per_token(self, model: str) -> float:
        """As measured of the model, or else of all."""
        if self._tokens[model]:
            return self._bytes[model] / self._tokens[model]
        return self.holds.bytes_per_token

    def _input_tokens(self, kept: _Kept) -> int:
        """One number for all prompts that are the same, so that their blocks are, too."""
        known = self._known_tokens.get(kept.prompt.whole)
        if known is not None:
            return known
        self.holds.estimated_inputs += 1
        return max(1, round(kept.prompt.num_bytes / self._bytes_per_token(kept.model)))

    def _output_tokens(self, kept: _Kept, mean: int | None) -> int:
        if kept.output_tokens is not None:
            return kept.output_tokens
        if kept.output_bytes is not None:
            self.holds.estimated_outputs += 1
            return round(kept.output_bytes / self._bytes_per_token(kept.model))
        self.holds.unknown_outputs += 1
        return kept.max_tokens if mean is None else mean


def _timed(kept: list[_Kept]) -> Iterator[tuple[int, _Kept]]:
    """Each with its milliseconds since the first, in order.

    Where all times are whole seconds, as SageMaker's are, the requests of a second are spread over it: sent
    all at once, they would wait for one another.
    """
    kept.sort(key=lambda each: each.at)
    start = kept[0].at if kept else 0.0
    is_coarse = all(each.at.is_integer() for each in kept)
    for at, together in groupby(kept, key=lambda each: each.at):
        requests = list(together)
        for number, each in enumerate(requests):
            within = number / len(requests) if is_coarse else 0.0
            yield int((at - start + within) * 1000), each


def _seed(*parts: str) -> bytes:
    """Other parts, other bytes, whatever stands behind them."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join(len(part).to_bytes(8) + part for part in encoded)
