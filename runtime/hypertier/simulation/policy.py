"""What a policy may know, and what it is asked: the simulated engines themselves stay out of its sight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hypertier.router.kv.holders import Holders, members
from hypertier.simulation.trace import BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as a router sees it: without the length of an answer that is not yet given."""

    number: int
    tokens: int
    blocks: Sequence[int]
    session: str


@dataclass(frozen=True, slots=True)
class Scrape:
    """What a replica's /metrics said: requests waiting and running, KV memory used, prompts so far."""

    waiting: int
    running: int
    kv_usage_ratio: float
    num_prompts: int = 0
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """What a policy is built with.

    `capacity_tokens` is what each replica's `vllm:cache_config_info` says, right or wrong; `scrape` gives
    every replica's metrics, a few moments old; `seed` is for ties.
    """

    num_replicas: int
    capacity_tokens: int
    events: bool
    scrape: Callable[[float], Sequence[Scrape]]
    seed: int


class Policy(Protocol):
    """One router's way to choose. `shares`: it tells its siblings what it sent and saw answered.

    One that is a `channels.Speaker` says itself what it tells, as bytes.
    """

    shares: bool

    def pick(self, prompt: Prompt, now: float) -> int:
        """The replica for this prompt."""
        ...

    def sent(self, prompt: Prompt, replica: int, now: float) -> None:
        """The prompt goes to `replica`: picked here, or, where it shares, by a sibling."""
        ...

    def first_token(self, prompt: Prompt, replica: int, now: float) -> None:
        """Its answer began."""
        ...

    def finished(self, prompt: Prompt, replica: int, now: float) -> None:
        """Its answer ended."""
        ...

    def stored(self, replica: int, blocks: Sequence[int]) -> None:
        """A replica's KV event; only where `World.events`."""
        ...

    def removed(self, replica: int, blocks: Sequence[int]) -> None:
        """A replica's KV event; only where `World.events`."""
        ...


class Tracking:
    """What most routers keep: requests in flight, and which replica holds which blocks."""

    shares = False

    def __init__(self, world: World) -> None:
        self.world = world
        self.in_flight = [0] * world.num_replicas
        self.holders = Holders()
        self._capacity_blocks = max(1, world.capacity_tokens // BLOCK_TOKENS)

    def held_tokens(self, prompt: Prompt) -> list[int]:
        """For every replica, how many of the prompt's first tokens it may hold; never all of them."""
        held = [0] * self.world.num_replicas
        for num_blocks, mask in self.holders.groups(prompt.blocks):
            tokens = min(num_blocks * BLOCK_TOKENS, prompt.tokens - 1)
            for replica in members(mask):
                held[replica] = tokens
        return held

    def sent(self, prompt: Prompt, replica: int, now: float) -> None:
        """Count it, and without KV events take it that the replica will hold the prompt's full blocks."""
        self.in_flight[replica] += 1
        if not self.world.events:
            full = prompt.blocks[: prompt.tokens // BLOCK_TOKENS]
            self.holders.record(replica, full, self._capacity_blocks)

    def first_token(self, prompt: Prompt, replica: int, now: float) -> None:
        """Nothing to note."""

    def finished(self, prompt: Prompt, replica: int, now: float) -> None:
        """Count it."""
        self.in_flight[replica] -= 1

    def stored(self, replica: int, blocks: Sequence[int]) -> None:
        """Believe it."""
        self.holders.stored(replica, blocks)

    def removed(self, replica: int, blocks: Sequence[int]) -> None:
        """Believe it."""
        self.holders.removed(replica, blocks)
