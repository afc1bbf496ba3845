"""The router's own picker as a policy of the simulation: the code of the pods, under another clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypertier.router.openai import BLOCK_ENDS, InferenceRequest
from hypertier.router.picking import Picker
from hypertier.router.replicas import ReplicaSet
from hypertier.router.settings import Address, RouterSettings
from hypertier.router.strategies import build
from hypertier.simulation.policy import Prompt, World
from hypertier.simulation.trace import BLOCK_TOKENS

TOKEN_BYTES = 4
"""Bytes of prompt that a token stands for: about what English text has."""


class Routed:
    """A strategy of `hypertier router`, with the memory for its index that the router has by default."""

    shares = False

    def __init__(self, world: World, strategy: str) -> None:
        self._replicas = ReplicaSet()
        self._replicas.replace(Address(f"replica-{i}", 8000) for i in range(world.num_replicas))
        self._all = list(self._replicas.by_url.values())
        for replica in self._all:
            self._replicas.admit(replica)
        self._number = {replica: i for i, replica in enumerate(self._all)}
        settings = RouterSettings(strategy=strategy, replicas=tuple(replica.url for replica in self._all))
        self._strategy = build(
            strategy, replicas=self._replicas, index_bytes=settings.index_bytes, now=lambda: 0.0
        )
        self._picker = Picker(self._strategy, self._replicas)
        self._pending: dict[int, int] = {}

    def pick(self, prompt: Prompt, now: float) -> int:
        """Ask the picker, and start the request as the router does."""
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

    def finished(self, prompt: Prompt, replica: int, now: float) -> None:
        """As the router does at the last."""
        self._strategy.finished(prompt.number, now)
        self._replicas.finish(self._all[replica])

    def stored(self, replica: int, blocks: Sequence[int]) -> None:
        """The router reads no KV events."""

    def removed(self, replica: int, blocks: Sequence[int]) -> None:
        """The router reads no KV events."""


def block_hashes(prompt: Prompt) -> tuple[int, ...]:
    """What the router would hash of the prompt's bytes, from the names of its blocks of tokens."""
    num_bytes = prompt.tokens * TOKEN_BYTES
    block_bytes = BLOCK_TOKENS * TOKEN_BYTES
    return tuple(
        hash((prompt.blocks[(end - 1) // block_bytes], end)) for end in BLOCK_ENDS if end <= num_bytes
    )


def strategy(name: str) -> Callable[[World], Routed]:
    """A builder for `simulate`: the strategy of that name, one of `catalog.ROUTED`."""
    return lambda world: Routed(world, name)
