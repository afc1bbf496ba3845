"""Where the prompt's beginning is cached, weighed against the work that waits there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from heapq import heappop, heappush

from hypertier.router.api.openai import BLOCK_ENDS, InferenceRequest, likely_bytes, prefix_bytes
from hypertier.router.process.turns import Turns
from hypertier.router.replicas.cache_sizes import CacheSizes
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State
from hypertier.router.strategies.loads import Sent
from hypertier.router.strategies.prefixes import Prefixes
from hypertier.router.strategies.scoring import Scoring
from hypertier.router.strategies.strategy import Choice, Strategy

OFFSETS = (0, *BLOCK_ENDS)
"""Bytes before each block."""
RUNS_A_TURN = 256
"""Of what is forgotten, so many runs go in one turn of the event loop: well below a millisecond."""
MAX_MASKS = 1024
"""Models whose replicas are kept as a set."""


class PrefixAware(Strategy):
    """Prefers the replica that is done soonest and with least work for all; `scoring` has the cost.

    It holds replicas to have cached what they were sent, the latest within what each keeps by `sizes` and
    within `capacity_bytes` of the router's memory, an equal share each; one that was ejected holds nothing.
    Times are learned from streamed answers.
    """

    @property
    def name(self) -> str:
        """As in the endpoint's manifest."""
        return "prefixaware"

    def __init__(
        self, replicas: ReplicaSet, *, capacity_bytes: int, sizes: CacheSizes, now: Callable[[], float]
    ) -> None:
        self._replicas = replicas
        self._sizes = sizes
        self._capacity_bytes = capacity_bytes
        self._now = now
        self._prompts = Prefixes(OFFSETS)
        self._turns = Turns(self._tidy)
        self._scoring = Scoring()
        self._numbers: dict[Replica, int] = {}
        self._by_number: dict[int, Replica] = {}
        self._free_numbers: list[int] = []
        self._healthy = 0
        self._masks: dict[int, tuple[Sequence[Replica], int]] = {}
        for replica in replicas.by_url.values():
            self._changed(replica, "listed")
        replicas.watch(self._changed)

    @property
    def index_bytes(self) -> int:
        """Memory that the index takes, estimated."""
        return self._prompts.num_bytes

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """The lowest cost."""
        return self._cheapest(request, self._sent_groups(request), candidates, now)

    def _sent_groups(self, request: InferenceRequest) -> list[tuple[float, int]]:
        """Bytes of the prompt's beginning that replicas were sent, most first, each with the set of them."""
        return self._groups_of(self._prompts, request)

    @staticmethod
    def _groups_of(prompts: Prefixes, request: InferenceRequest) -> list[tuple[float, int]]:
        return [
            (likely_bytes(num_blocks, request.num_bytes), mask)
            for num_blocks, mask in prompts.groups(request.block_hashes)
        ]

    @property
    def _max_bytes(self) -> float:
        """Memory for what one replica was sent."""
        return self._capacity_bytes / len(self._numbers)

    def _cheapest(
        self,
        request: InferenceRequest,
        groups: Sequence[tuple[float, int]],
        candidates: Sequence[Replica],
        now: float,
    ) -> Choice:
        """The lowest cost, where `groups` tell what is held."""
        among = self._healthy if candidates is self._replicas.healthy else self._mask(candidates)
        choice = self._scoring.choose(max(1, request.num_bytes), groups, among, now)
        bit = 1 << choice.replica
        matched = 0
        for held, mask in groups:
            if mask & bit:
                matched = int(held)
                break
        return Choice(
            self._by_number[choice.replica], "prefix" if matched else "load", matched, choice.seconds
        )

    def sent(self, ticket: Hashable, request: InferenceRequest, choice: Choice, now: float) -> None:
        """It is in flight there, and the replica will hold the prompt."""
        number = self._numbers[choice.replica]
        size = max(1, request.num_bytes)
        hashes = request.block_hashes
        goes_on = False
        if hashes:
            capacity = self._sizes.bytes_of(choice.replica)
            rest = max(0, size - prefix_bytes(len(hashes)))
            goes_on = self._prompts.record(number, hashes, capacity, rest=rest, max_bytes=self._max_bytes)
            if self._prompts.is_behind:
                self._turns.begin()
        held, streamed = choice.matched_bytes, request.streamed
        self._scoring.sent(ticket, number, held, size, now, streamed=streamed, goes_on=goes_on)

    def first_token(self, ticket: Hashable, now: float) -> None:
        """Learn how long it took, and from that whether the replica held what it was believed to."""
        sent = self._scoring.first_token(ticket, now)
        if sent is not None:
            self._correct(sent)

    def _correct(self, sent: Sent) -> None:
        """What its time says of its replica's cache, for the index."""
        self._prompts.correct(sent.replica, sent.surprise, sent.size)

    def finished(self, ticket: Hashable, now: float) -> None:
        """It is no longer in flight."""
        sent = self._scoring.finished(ticket, now)
        if sent is not None:
            self._sizes.finished(self._by_number[sent.replica], int(sent.size))

    def _changed(self, replica: Replica, reason: str) -> None:
        self._masks.clear()
        number = self._numbers.get(replica)
        if replica.state is State.LEAVING:
            if number is not None:
                self._healthy &= ~(1 << number)
                self._leave(replica, number)
            return
        if number is None:
            number = self._join(replica)
        if replica.state is State.HEALTHY:
            self._healthy |= 1 << number
            return
        self._healthy &= ~(1 << number)
        if replica.state is State.EJECTED:
            self._prompts.forget(number)
            self._turns.begin()

    def _join(self, replica: Replica) -> int:
        """One came. Returns its number, the lowest that is free."""
        number = heappop(self._free_numbers) if self._free_numbers else len(self._numbers)
        self._numbers[replica] = number
        self._by_number[number] = replica
        self._scoring.add(number, self._now())
        self._bound()
        return number

    def _leave(self, replica: Replica, number: int) -> None:
        """One is gone."""
        del self._numbers[replica], self._by_number[number]
        heappush(self._free_numbers, number)
        self._scoring.remove(number)
        self._prompts.forget(number)
        self._turns.begin()

    def _bound(self) -> None:
        """Hold all replicas to their share of the memory, which is less with each one more."""
        self._prompts.bound(self._max_bytes)
        self._turns.begin()

    def _tidy(self) -> bool:
        """A piece of what was put off; whether there is more."""
        return self._prompts.tidy(RUNS_A_TURN)

    def _mask(self, replicas: Sequence[Replica]) -> int:
        """The set of them; of a tuple, which is a model's until something changes, it is made once."""
        kept = self._masks.get(id(replicas))
        if kept is not None and kept[0] is replicas:
            return kept[1]
        mask = 0
        for replica in replicas:
            mask |= 1 << self._numbers[replica]
        if isinstance(replicas, tuple):
            if len(self._masks) >= MAX_MASKS:
                self._masks.clear()
            self._masks[id(replicas)] = replicas, mask
        return mask
