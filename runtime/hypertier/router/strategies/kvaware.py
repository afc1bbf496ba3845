"""What engines say that they hold, weighed against the work that waits there."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from hypertier.errors import KvEventError, TokenizeError
from hypertier.router.api.openai import (
    MAX_HASHED_BYTES,
    InferenceRequest,
    Prompt,
    likely_bytes,
    prefix_bytes,
)
from hypertier.router.kv import tokens
from hypertier.router.kv.holders import most_of
from hypertier.router.kv.kv_events import Event
from hypertier.router.kv.kv_index import KvIndex
from hypertier.router.kv.tokens import Links
from hypertier.router.replicas.cache_sizes import CacheSizes
from hypertier.router.replicas.models import MAX_MODELS
from hypertier.router.replicas.replicas import Replica, ReplicaSet
from hypertier.router.strategies.loads import Sent
from hypertier.router.strategies.prefixaware import OFFSETS, RUNS_A_TURN, PrefixAware
from hypertier.router.strategies.prefixes import Prefixes
from hypertier.router.strategies.strategy import Choice

log = logging.getLogger("hypertier.router")

INDEX_SHARE, LINKS_SHARE, COMPUTING_SHARE = 0.6, 0.2, 0.05
"""Of the memory: for what engines hold, for prompts' tokens, and for what is being computed; the rest is
`prefixaware`'s."""
BLOCKS_A_TURN = 1024
"""Of what engines no longer hold, so many blocks go in one turn of the event loop."""
MAX_ASKED = 32
"""Prompts of which an engine is asked at once; more are counted as `busy`, and asked when they come again."""
MAX_ASKED_BYTES = 32 * 2**20
MAX_PROMPT_BYTES = 4 * MAX_HASHED_BYTES
"""A longer body is `unsupported`: to read it and its tokens would keep all requests waiting, for little. What
that costs is measured: `make bench NAME=tokens`."""
ASK_SECONDS = 10.0


class KvAware(PrefixAware):
    """`prefixaware`, but that what a replica holds is what it says of itself by KV events.

    Where that can't tell, what was sent where decides, as with `prefixaware`, and `fallbacks` counts why:
    `no_events` of the chosen replica are heard, or they are `not_verified`; the prompt is `not_tokenized`, as
    all are that begin like no other did; or it is `not_confirmed`: no engine ever said that it holds what the
    prompt's tokens should make: they are not computed yet, or the engine makes other tokens of it.
    """

    @property
    def name(self) -> str:
        """As in the endpoint's manifest."""
        return "kvaware"

    def __init__(
        self, replicas: ReplicaSet, *, capacity_bytes: int, sizes: CacheSizes, now: Callable[[], float]
    ) -> None:
        self._computing = Prefixes(OFFSETS)  # bounded as soon as there are replicas
        self.index = KvIndex(int(INDEX_SHARE * capacity_bytes))
        self.links = Links(int(LINKS_SHARE * capacity_bytes))
        self._computing_bytes = COMPUTING_SHARE * capacity_bytes
        rest = 1.0 - INDEX_SHARE - LINKS_SHARE - COMPUTING_SHARE
        super().__init__(replicas, capacity_bytes=int(rest * capacity_bytes), sizes=sizes, now=now)
        self._heard = 0
        self._doubted = 0
        self._renderings: dict[int, int] = {}
        self._num_rendering: Counter[int] = Counter()
        self._rendered: frozenset[int] = frozenset()
        self._cause: tuple[InferenceRequest | None, str | None] = None, None
        self.fallbacks: Counter[str] = Counter()
        self.tokenizations: Counter[str] = Counter()
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._asked_bytes = 0
        self._is_adapter: dict[str, bool] = {}
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="tokenize")

    @property
    def index_bytes(self) -> int:
        """Memory that all of it takes, estimated."""
        told = self.index.num_bytes + self.links.num_bytes
        return super().index_bytes + self._computing.num_bytes + told

    def apply(self, replica: Replica, event: Event) -> None:
        """The replica said so."""
        number = self._numbers.get(replica)
        if number is not None:
            self.index.apply(number, event)
            if self.index.is_behind:
                self._turns.begin()

    def hear(self, replica: Replica, block_size: int | None = None, rendering: int | None = None) -> None:
        """All that the replica says is heard from now on, until it is to be forgotten, and may be believed.

        `block_size` is that of all who are, where it is known; tokens are learned anew for another one.
        `rendering` stands for the tokens that it makes of prompts: where those that are heard make others
        than before, as with a new chat template, tokens are learned anew as well.
        """
        number = self._numbers.get(replica)
        if number is not None:
            self._heard |= 1 << number
            self._doubted &= ~(1 << number)
            if rendering is not None:
                self._render(number, rendering)
        if block_size is not None and block_size != self.index.block_size:
            self.index.block_size = block_size
            self.links.forget()

    def doubt(self, replica: Replica) -> None:
        """What the replica says is not to be gone by, until `hear`."""
        number = self._numbers.get(replica)
        if number is not None:
            self._heard &= ~(1 << number)
            self._doubted |= 1 << number
            self._render(number, None)

    def forget(self, replica: Replica) -> None:
        """Nothing that the replica said holds any more."""
        number = self._numbers.get(replica)
        if number is not None:
            self._forget_number(number)

    def _forget_number(self, number: int) -> None:
        self._heard &= ~(1 << number)
        self._doubted &= ~(1 << number)
        self._computing.forget(number)
        self.index.forget(number)
        self._turns.begin()
        self._render(number, None)

    def _render(self, number: int, rendering: int | None) -> None:
        """The replica makes such tokens of prompts now; where it is None, that is not known."""
        before = self._renderings.pop(number, None)
        if before is not None:
            self._num_rendering[before] -= 1
            if not self._num_rendering[before]:
                del self._num_rendering[before]
        if rendering is not None:
            self._renderings[number] = rendering
            self._num_rendering[rendering] += 1
        if before != rendering:
            self._compare_renderings()

    def _compare_renderings(self) -> None:
        """Learn tokens anew where engines make others of prompts than those did that told them.

        While there are engines of both kinds, as in a rollout, tokens may be those of either.
        """
        now = frozenset(self._num_rendering)
        if now and now != self._rendered:
            if self._rendered:
                self.links.forget()
            self._rendered = now

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """The lowest cost."""
        heard = self._heard
        cause, said = self._said_groups(request) if heard else (self._why_unheard(self._doubted), [])
        self._cause = request, cause
        if cause is not None:
            return self._cheapest(request, self._sent_groups(request), candidates, now)
        told = [said]
        # Engines tell of blocks once they are computed; a prompt that comes behind will find them.
        computing = heard & self._scoring.computing
        if computing:
            told.append(
                [(held, mask & computing) for held, mask in self._groups_of(self._computing, request)]
            )
        unheard = self._healthy & ~heard
        if unheard:
            told.append([(held, mask & unheard) for held, mask in self._sent_groups(request)])
        groups = most_of(*told)
        choice = self._cheapest(request, groups, candidates, now)
        chosen = 1 << self._numbers[choice.replica]
        if not heard & chosen:
            self._cause = request, self._why_unheard(self._doubted & chosen)
            return choice
        return choice.because("kv") if choice.matched_bytes else choice

    def sent(self, ticket: Hashable, request: InferenceRequest, choice: Choice, now: float) -> None:
        """It is in flight there; the replica is asked for the prompt's tokens, where they are not known."""
        super().sent(ticket, request, choice, now)
        asked, cause = self._cause
        if asked is request and cause is not None:  # neither only weighed nor of others
            self.fallbacks[cause] += 1
        hashes = request.block_hashes
        number = self._numbers[choice.replica]
        is_heard = self._heard >> number & 1
        if hashes and is_heard:
            capacity = self._scoring.pending_size(number) + request.num_bytes
            self._computing.record(number, hashes, capacity, max_bytes=self._max_computing_bytes)
            if self._computing.is_behind:
                self._turns.begin()
        if request.prompt is not None and not self.links.knows(request.block_hashes):
            if is_heard:  # another's tokens need not be those of its blocks
                self._ask(request.prompt, request.block_hashes, choice.replica)
            else:
                self.tokenizations[self._why_unheard(self._doubted >> number & 1)] += 1

    def _correct(self, sent: Sent) -> None:
        """What an engine says that it holds is not to be corrected."""
        if not self._heard >> sent.replica & 1:
            super()._correct(sent)

    async def stop(self) -> None:
        """Ask no more."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _why_unheard(self, doubted: int) -> str:
        return "not_verified" if doubted else "no_events"

    @property
    def _max_computing_bytes(self) -> float:
        return self._computing_bytes / len(self._numbers)

    def _bound(self) -> None:
        super()._bound()
        self._computing.bound(self._max_computing_bytes)

    def _tidy(self) -> bool:
        return super()._tidy() or self._computing.tidy(RUNS_A_TURN) or self.index.tidy(BLOCKS_A_TURN)

    def _leave(self, replica: Replica, number: int) -> None:
        super()._leave(replica, number)
        self._forget_number(number)

    def _said_groups(self, request: InferenceRequest) -> tuple[str | None, list[tuple[float, int]]]:
        """What replicas say that they hold of the prompt, or why that is not known.

        Of what follows behind all that is known in tokens, only what they were sent tells.
        """
        hashes = request.block_hashes
        names, first, is_confirmed, num_known = self.links.find(hashes)
        num_names = num_known - first
        if num_names <= 0:
            return "not_tokenized", []

        def size(num: int) -> float:
            if num == num_names:  # what comes behind is not known in tokens
                return likely_bytes(num_known, request.num_bytes)
            return prefix_bytes(first + num) if num else 0

        groups = self.index.groups(hashes[first:num_known], size, names)
        if groups:
            if not is_confirmed:
                self.links.confirm(hashes[first])
        elif not is_confirmed:
            return "not_confirmed", []
        last = num_known - 1
        if num_known < len(hashes) and (whole := self.index.holding(names.get(hashes[last], 0))):
            behind = [(num, mask & whole) for num, mask in self._prompts.groups(hashes) if num > last]
            groups += [(likely_bytes(num, request.num_bytes), mask) for num, mask in behind]
        return None, groups

    def _ask(self, prompt: Prompt, block_hashes: tuple[int, ...], replica: Replica) -> None:
        key, size = block_hashes[-1], len(prompt.body)
        if key in self._asking:
            return
        if size > MAX_PROMPT_BYTES:
            self.tokenizations["unsupported"] += 1
            return
        if len(self._asking) >= MAX_ASKED or self._asked_bytes + size > MAX_ASKED_BYTES:
            self.tokenizations["busy"] += 1
            return
        self._asked_bytes += size
        kept = prompt._replace(body=bytes(prompt.body))  # the request's own may be gone before the answer
        task = asyncio.get_running_loop().create_task(self._learn(kept, block_hashes, replica))
        self._asking[key] = task

        def ended(done: asyncio.Task[None]) -> None:
            del self._asking[key]
            self._asked_bytes -= size
            error = None if done.cancelled() else done.exception()
            if error is not None:  # a fault of ours: this prompt alone stays without tokens
                self.tokenizations["failed"] += 1
                log.error("a prompt's tokens could not be learned", exc_info=error)

        task.add_done_callback(ended)

    async def _learn(self, prompt: Prompt, block_hashes: tuple[int, ...], replica: Replica) -> None:
        try:
            loop = asyncio.get_running_loop()
            asked, answer, more = await loop.run_in_executor(
                self._threads, tokens.tokenize, replica.address, prompt, ASK_SECONDS
            )
            adapter = await self._adapter(asked.model, replica)
            block_size = self.index.block_size
            if block_size is None:
                raise TokenizeError("no_events", "no engine said yet how long its blocks are")
            name = partial(tokens.names_of, salt=asked.salt, adapter=adapter, more=more)
            names = await loop.run_in_executor(
                self._threads, name, answer, block_size, asked.num_bytes, len(block_hashes)
            )
        except (TokenizeError, KvEventError) as error:
            self.tokenizations[error.cause] += 1
            return
        if block_size != self.index.block_size:
            return  # while these were read, engines with other blocks took over
        self.tokenizations["changed" if self.links.learn(block_hashes, names) else "good"] += 1

    async def _adapter(self, model: str | None, replica: Replica) -> str | None:
        """The model, where the replica says that it is an adapter; asked once for each name."""
        if model is None:
            return None
        known = self._is_adapter.get(model)
        if known is None:
            known = await asyncio.get_running_loop().run_in_executor(
                self._threads, tokens.is_adapter, replica.address, model, ASK_SECONDS
            )
            if len(self._is_adapter) >= MAX_MODELS:
                self._is_adapter.clear()
            self._is_adapter[model] = known
        return model if known else None
