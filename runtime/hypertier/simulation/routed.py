"""The router's own picker as a policy of the simulation: the code of the pods, under another clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from hypertier.router.api.openai import BLOCK_ENDS, InferenceRequest
from hypertier.router.discovery.addresses import Address
from hypertier.router.kv.kv_events import Removed, Stored, chain
from hypertier.router.peers.news import Reader
from hypertier.router.peers.sharing import Shared
from hypertier.router.picking import Picker
from hypertier.router.replicas.cache_sizes import CacheSizes, Reading
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.replicas.sizing import READ_SECONDS
from hypertier.router.settings import RouterSettings
from hypertier.router.strategies import build
from hypertier.router.strategies.kvaware import KvAware
from hypertier.router.telemetry.metrics import PeerCounts
from hypertier.simulation.policy import Prompt, World
from hypertier.simulation.trace import BLOCK_TOKENS

TOKEN_BYTES = 4
"""Bytes of prompt that a token stands for: about what English text has."""
BLOCK_BYTES = BLOCK_TOKENS * TOKEN_BYTES


class Routed:
    """A strategy of `hypertier router`, with the memory for its index that the router has by default.

    It tells other routers what `sharing.Shared` does, where it `speaks`. `kvaware` knows a prompt's tokens
    once the prompt has its first token, as an engine would have said by then.
    """

    shares = False

    def __init__(self, world: World, strategy: str, *, speaks: bool = True) -> None:
        self.speaks = speaks
        self._scrape = world.scrape
        self._capacity_tokens = world.capacity_tokens
        self._replicas = ReplicaSet()
        self._replicas.replace(Address(f"replica-{i}", 8000) for i in range(world.num_replicas))
        self._all = list(self._replicas.by_url.values())
        for replica in self._all:
            self._replicas.admit(replica)
        self._number = {replica: i for i, replica in enumerate(self._all)}
        settings = RouterSettings(strategy=strategy, replicas=tuple(replica.url for replica in self._all))
        self._sizes = CacheSizes()
        inner = build(
            strategy,
            replicas=self._replicas,
            index_bytes=settings.index_bytes,
            sizes=self._sizes,
            now=lambda: 0.0,
        )
        self._kvaware = inner if isinstance(inner, KvAware) and world.events else None
        if self._kvaware is not None:
            for replica in self._all:
                self._kvaware.hear(replica)
        self._said: list[bytes] = []
        self._counts = PeerCounts()
        self._strategy = Shared(inner, self._replicas, tell=self._said.append, counts=self._counts)
        self._picker = Picker(self._strategy, self._replicas)
        self._pending: dict[int, int] = {}
        draw = random.Random(world.seed)
        self._read_at = [0.0] * world.num_replicas
        self._next_read = 0.0
        self._read_sizes(0.0)
        self._read_at = [READ_SECONDS * draw.uniform(0.1, 1.0) for _ in self._all]
        self._next_read = min(self._read_at)

    @property
    def num_in_flight(self) -> int:
        """Requests that it takes to be in flight, its own and others'."""
        return self._counts.num_in_flight + self._replicas.in_flight

    def pick(self, prompt: Prompt, now: float) -> int:
        """Ask the picker, and start the request as the router does."""
        if now >= self._next_read:
            self._read_sizes(now)
        num_bytes = prompt.tokens * TOKEN_BYTES
        request = InferenceRequest(
            num_bytes, block_hashes(prompt), prompt.session.encode() or None, streamed=True
        )
        pick = self._picker.pick(prompt.number, request, now)
        if pick is None:
            raise RuntimeError("every simulated replica is healthy")
        pending = self._pending[prompt.number] = max(0, num_bytes - pick.matched_bytes)
        self._replicas.start(pick.replica, pending)
        return self._number[pick.replica]

    def sent(self, prompt: Prompt, replica: int, now: float) -> None:
        """`pick` has seen to it."""

    def first_token(self, prompt: Prompt, replica: int, now: float) -> None:
        """As the router does at the first event of the answer."""
        self._strategy.first_token(prompt.number, now)
        self._all[replica].pending_bytes -= self._pending.pop(prompt.number)
        if self._kvaware is not None:
            hashes = block_hashes(prompt)
            self._kvaware.links.learn(hashes, block_names(prompt, len(hashes)))

    def finished(self, prompt: Prompt, replica: int, now: float) -> None:
        """As the router does at the last."""
        self._strategy.finished(prompt.number, now)
        self._replicas.finish(self._all[replica])

    def stored(self, replica: int, blocks: Sequence[int]) -> None:
        """A block's number stands for all before it, so the engine tells of each as of a first one."""
        if self._kvaware is not None:
            for block in blocks:
                told = Stored([block], None, [block], 1, "GPU", None, 0, is_whole=True, is_local=True)
                self._kvaware.apply(self._all[replica], told)

    def removed(self, replica: int, blocks: Sequence[int]) -> None:
        """The engine tells of them together."""
        if self._kvaware is not None:
            self._kvaware.apply(self._all[replica], Removed(list(blocks), "GPU", 0, is_local=True))

    # What `channels.Channels` asks and tells.

    def said(self) -> bytes:
        """News since it was asked last."""
        data = b"".join(self._said) if self.speaks else b""
        self._said.clear()
        return data

    def in_flight_messages(self) -> bytes:
        """All that is in flight."""
        return self._strategy.in_flight_messages()[0]

    def heard(self, peer: object, data: bytes, now: float) -> None:
        """News of another router."""
        for what in Reader().feed(data):
            self._strategy.heard(peer, what, now)

    def lost(self, peer: object, now: float) -> None:
        """That router is not heard any more."""
        self._strategy.lost(peer, now)

    def _read_sizes(self, now: float) -> None:
        """As `sizing` does of every replica at its time."""
        scraped = self._scrape(now)
        for number, replica in enumerate(self._all):
            if now >= self._read_at[number]:
                self._read_at[number] = now + READ_SECONDS
                metrics = scraped[number]
                reading = Reading(self._capacity_tokens, metrics.num_prompts, metrics.prompt_tokens)
                self._sizes.learn(replica, reading)
        self._next_read = min(self._read_at)


def block_hashes(prompt: Prompt) -> tuple[int, ...]:
    """What the router would hash of the prompt's bytes, from the names of its blocks of tokens."""
    num_bytes = prompt.tokens * TOKEN_BYTES
    return tuple(
        hash((prompt.blocks[(end - 1) // BLOCK_BYTES], end)) % 2**64 for end in BLOCK_ENDS if end <= num_bytes
    )


def block_names(prompt: Prompt, num_blocks: int) -> list[int | None]:
    """For each of the prompt's blocks of bytes, the name of the last block of tokens that it covers whole."""
    names: dict[int, int | None] = {0: None}
    found: list[int | None] = []
    for end in BLOCK_ENDS[:num_blocks]:
        num_whole = end // BLOCK_BYTES
        if num_whole not in names:
            names[num_whole] = next(chain([prompt.blocks[num_whole - 1]], 1))
        found.append(names[num_whole])
    return found


def strategy(name: str, *, speaks: bool = True) -> Callable[[World], Routed]:
    """A builder for `simulate`: the strategy of that name, one of `catalog.ROUTED`."""
    return lambda world: Routed(world, name, speaks=speaks)
