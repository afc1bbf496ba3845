"""Which replicas hold which blocks, by what they say themselves. No sockets, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from hypertier.router.kv.holders import Holders
from hypertier.router.kv.kv_events import Cleared, EngineHash, Event, Removed, Stored, chain

BLOCK_BYTES = 320
"""Memory of one block of one replica: 214 to 314 bytes by tracemalloc on CPython 3.11, 16 to 1 replicas."""
L1_WEIGHT = 0.8
"""What a block in a replica's L1 counts, one on its GPU being 1: llm-d's weight
(https://github.com/llm-d/llm-d-kv-cache, read 2026-12-01)."""


_NONE: frozenset[int] = frozenset()
_NO_HASHES: frozenset[EngineHash] = frozenset()


@dataclass(slots=True)
class _Block:
    name: int
    on_gpu: bool = False
    num_in_l1: int = 0  # chunks that hold it


@dataclass(slots=True)
class _Replica:
    """What one replica holds. `since` are names of blocks told of while earlier ones are forgotten."""

    blocks: dict[EngineHash, _Block] = field(default_factory=dict)
    group: int | None = None
    num_in_l1: int = 0
    since: set[int] | None = None
    since_on_gpu: set[int] = field(default_factory=set)
    stored_again: set[EngineHash] | None = None  # on the GPU, while what was there before is cleared


class KvIndex:
    """Blocks by the names that `kv_events.chain` gives them, at most `capacity_bytes` for all replicas.

    What can't be used is counted in `dropped`, by cause: `full`, `orphan` (behind a block of which nothing
    is known), `unnamed` (a block in L1 that was not known on the GPU, or one without tokens). Blocks of
    shared storage are no replica's own and never counted.

    `forget` and a `Cleared` take one step, and leave the rest to `tidy`. Until that is done the replica holds
    nothing, and what it tells meanwhile counts from then on.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes // BLOCK_BYTES
        self._replicas: dict[int, _Replica] = {}
        self._gpu = Holders()
        self._any = Holders()
        self._num_blocks = 0
        self._num_in_l1 = 0
        self._gone: dict[int, list[dict[EngineHash, _Block]]] = {}
        self._cleared_blocks: dict[int, list[EngineHash]] = {}  # of what is in L1 as well
        self._gone_mask = 0
        self.block_size: int | None = None
        self.dropped: Counter[str] = Counter()

    @property
    def num_bytes(self) -> int:
        """Memory that it takes, estimated."""
        return BLOCK_BYTES * self._num_blocks

    def apply(self, replica: int, event: Event) -> None:
        """The replica said so."""
        if isinstance(event, Stored):
            self._stored(replica, event)
        elif isinstance(event, Removed):
            self._removed(replica, event)
        elif isinstance(event, Cleared):
            self._cleared(replica)

    def forget(self, replica: int) -> None:
        """The replica restarted, is gone, or was not heard: it holds nothing."""
        known = self._replicas.pop(replica, None)
        if known is not None:
            self._num_in_l1 -= known.num_in_l1
            self._put_off(replica, known)
            self._unhide(replica)

    @property
    def is_behind(self) -> bool:
        """Something was put off."""
        return bool(self._gone) or bool(self._cleared_blocks)

    def tidy(self, max_blocks: int) -> bool:
        """Drop so many blocks of what is forgotten; whether more is left."""
        num_blocks = 0
        while self.is_behind and num_blocks < max_blocks:
            if not self._gone:
                num_blocks += self._clear_some(max_blocks - num_blocks)
                continue
            replica = next(iter(self._gone))
            gone = self._gone[replica]
            known = self._replicas.get(replica)
            since = known.since if known is not None and known.since is not None else _NONE
            on_gpu = known.since_on_gpu if known is not None else _NONE
            while gone[0] and num_blocks < max_blocks:
                name = gone[0].popitem()[1].name
                num_blocks += 1
                self._num_blocks -= 1
                if name not in on_gpu:
                    self._gpu.drop(replica, name)
                if name not in since:
                    self._any.drop(replica, name)
            if not gone[0]:
                num_blocks += 1
                del gone[0]
            if not gone:
                del self._gone[replica]
                self._unhide(replica)
                if known is not None:
                    known.since = None
                    known.since_on_gpu = set()
        return self.is_behind

    def _clear_some(self, max_blocks: int) -> int:
        """Take so many blocks off a GPU that was cleared; returns how many, 1 at least."""
        replica = next(iter(self._cleared_blocks))
        left = self._cleared_blocks[replica]
        known = self._replicas[replica]
        stored_again = known.stored_again or _NO_HASHES
        num_blocks = 0
        while left and num_blocks < max_blocks:
            engine_hash = left.pop()
            num_blocks += 1
            block = known.blocks.get(engine_hash)
            if block is not None and block.on_gpu and engine_hash not in stored_again:
                block.on_gpu = False
                self._gpu.drop(replica, block.name)
                self._drop_unheld(replica, known, engine_hash, block)
        if not left:
            del self._cleared_blocks[replica]
            known.stored_again = None
            self._unhide(replica)
        return max(1, num_blocks)

    def _unhide(self, replica: int) -> None:
        """What the replica holds is known again, where nothing of it is left to do."""
        if replica not in self._gone and replica not in self._cleared_blocks:
            self._gone_mask &= ~(1 << replica)

    def _put_off(self, replica: int, known: _Replica) -> None:
        self._cleared_blocks.pop(replica, None)
        if known.blocks:
            self._gone.setdefault(replica, []).append(known.blocks)
            self._gone_mask |= 1 << replica

    def _begin(self, replica: int) -> _Replica:
        """It tells of the first blocks, or the first since it was forgotten."""
        known = self._replicas[replica] = _Replica()
        if self._gone_mask >> replica & 1:
            known.since = set()
        return known

    def groups(
        self, blocks: Sequence[int], size: Callable[[int], float], names: Mapping[int, int] | None = None
    ) -> list[tuple[float, int]]:
        """Replicas by how much of these blocks they hold, most first.

        With `names`, these are what the blocks are called there. `size(n)` is the size of the first n blocks.
        Returns pairs of a size, what is in L1 alone weighted by `L1_WEIGHT`, and the set of the replicas that
        hold just so much.
        """
        on_gpu = self._held(self._gpu.groups(blocks, names))
        if not self._num_in_l1:
            return [(size(num), replicas) for num, replicas in on_gpu]
        found: list[tuple[float, int]] = []
        first = 0
        for num_any, replicas in self._held(self._any.groups(blocks, names)):
            # No replica holds more on its GPU than at all: what is above was dealt with.
            while first < len(on_gpu) and on_gpu[first][0] > num_any:
                first += 1
            for num_gpu, some in islice(on_gpu, first, None):
                if not replicas:
                    break
                if replicas & some:
                    weighted = size(num_gpu) + L1_WEIGHT * (size(num_any) - size(num_gpu))
                    found.append((weighted, replicas & some))
                    replicas &= ~some
            if replicas:
                found.append((L1_WEIGHT * size(num_any), replicas))
        return sorted(found, reverse=True)

    def holding(self, name: int) -> int:
        """The set of replicas that hold this block, and so all before it."""
        return self._any.holding(name) & ~self._gone_mask

    def _held(self, groups: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Without replicas whose blocks are being forgotten: those break no bound of another's."""
        gone = self._gone_mask
        if not gone:
            return groups
        return [(num, replicas & ~gone) for num, replicas in groups if replicas & ~gone]

    def _stored(self, replica: int, event: Stored) -> None:
        if not event.is_whole or not event.is_local or event.medium not in ("GPU", "CPU"):
            return
        known = self._replicas.get(replica)
        if known is None:
            known = self._begin(replica)
        if known.group is None:
            known.group = event.group
        if known.group != event.group:
            return
        names = self._names(known, event)
        added: list[int] = []
        for engine_hash, name in zip(event.block_hashes, names, strict=False):
            block = known.blocks.get(engine_hash)
            if block is None:
                if self._num_blocks >= self._capacity:
                    self.dropped["full"] += 1
                    continue
                block = known.blocks[engine_hash] = _Block(name)
                self._num_blocks += 1
            if event.medium == "GPU":
                block.on_gpu = True
                if known.stored_again is not None:
                    known.stored_again.add(engine_hash)
            else:
                block.num_in_l1 += 1
                known.num_in_l1 += 1
                self._num_in_l1 += 1
            added.append(block.name)
        self._any.stored(replica, added)
        if event.medium == "GPU":
            self._gpu.stored(replica, added)
        if known.since is not None:
            known.since.update(added)
            if event.medium == "GPU":
                known.since_on_gpu.update(added)

    def _names(self, known: _Replica, event: Stored) -> list[int]:
        """Names of the event's blocks.

        Those in L1 are what they were on the GPU: vLLM 0.32 tells of them in any order, and leaves out what
        they depend on beside tokens.
        """
        found = [block.name for each in event.block_hashes if (block := _block(known, each)) is not None]
        if len(found) == len(event.block_hashes):
            return found
        if event.medium != "GPU" or not event.token_ids:
            self.dropped["unnamed"] += len(event.block_hashes)
            return []
        root = 0
        if event.parent is not None:
            parent = _block(known, event.parent)
            if parent is None:
                self.dropped["orphan"] += len(event.block_hashes)
                return []
            root = parent.name
        if self.block_size is None:
            self.block_size = event.block_size
        return list(chain(event.token_ids, event.block_size, root, event.extra_keys))

    def _removed(self, replica: int, event: Removed) -> None:
        known = self._replicas.get(replica)
        if known is None or not event.is_local or event.group != known.group:
            return
        for engine_hash in event.block_hashes:
            block = known.blocks.get(engine_hash)
            if block is None:
                continue
            if event.medium == "GPU" and block.on_gpu:
                block.on_gpu = False
                self._gpu.drop(replica, block.name)
                known.since_on_gpu.discard(block.name)
            elif event.medium == "CPU" and block.num_in_l1:
                block.num_in_l1 -= 1
                known.num_in_l1 -= 1
                self._num_in_l1 -= 1
            self._drop_unheld(replica, known, engine_hash, block)

    def _cleared(self, replica: int) -> None:
        known = self._replicas.get(replica)
        if known is None:
            return
        if not known.num_in_l1:
            self._put_off(replica, known)
            self._unhide(replica)
            self._begin(replica).group = known.group
            return
        known.since_on_gpu.clear()
        known.stored_again = set()
        self._cleared_blocks[replica] = list(known.blocks)
        self._gone_mask |= 1 << replica

    def _drop_unheld(self, replica: int, known: _Replica, engine_hash: EngineHash, block: _Block) -> None:
        if not block.on_gpu and not block.num_in_l1:
            del known.blocks[engine_hash]
            self._num_blocks -= 1
            self._any.drop(replica, block.name)
            if known.since is not None:
                known.since.discard(block.name)


def _block(known: _Replica, engine_hash: EngineHash) -> _Block | None:
    """A block that the replica holds; not one that is still to be cleared."""
    block = known.blocks.get(engine_hash)
    again = known.stored_again
    if block is None or again is None or block.num_in_l1 or engine_hash in again:
        return block
    return None
