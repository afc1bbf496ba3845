"""Which replicas hold how much of a prompt's beginning: one lookup for all of them at once.

Replicas are numbers from 0 on, and a set of them is a whole number with their bits set. So a lookup costs as
many steps as there are different answers, however many replicas there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat


class _Used:
    """What one replica was sent: a block -> its size, what was used longest ago first."""

    __slots__ = ("blocks", "size")

    def __init__(self) -> None:
        self.blocks: OrderedDict[int, float] = OrderedDict()
        self.size = 0.0


class Holders:
    """A block -> the replicas that hold it. No replica holds a block without all blocks before it.

    Fed by what was sent where (`record`, which forgets what was used longest ago once a replica's capacity is
    reached), or by what engines say of themselves (`stored`, `removed`).
    """

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}
        self._used: dict[int, _Used] = {}

    def __len__(self) -> int:
        return len(self._masks)

    @property
    def num_recorded(self) -> int:
        """Blocks in `record`'s memory, once for each replica that holds one."""
        return sum(len(used.blocks) for used in self._used.values())

    def holding(self, block: int) -> int:
        """The set of replicas that hold this block."""
        return self._masks.get(block, 0)

    def groups(
        self, block_hashes: Sequence[int], names: Mapping[int, int] | None = None
    ) -> list[tuple[int, int]]:
        """Replicas by how many of the prompt's first blocks they hold, most first.

        With `names`, blocks are known here by what they are called there; one that is not there, or is 0, is
        held by nobody. Returns pairs of a number of blocks, 1 or more, and the set of the replicas that hold
        just so many.
        """
        find = self._masks.get
        name = names.get if names is not None else None
        num_blocks = len(block_hashes)

        def held(number: int) -> int:
            block = block_hashes[number]
            return find(block if name is None else name(block, 0), 0)

        mask = held(0) if num_blocks else 0
        found: list[tuple[int, int]] = []
        at = 0
        while mask:
            # The last block that all of `mask` hold, by doubling steps and then by halves.
            step = 1
            low = at
            while low + step < num_blocks and held(low + step) & mask == mask:
                low += step
                step *= 2
            high = min(low + step, num_blocks)
            while high - low > 1:
                middle = (low + high) // 2
                if held(middle) & mask == mask:
                    low = middle
                else:
                    high = middle
            deeper = held(low + 1) & mask if low + 1 < num_blocks else 0
            found.append((low + 1, mask & ~deeper))
            mask = deeper
            at = low + 1
        found.reverse()
        return found

    def record(
        self,
        replica: int,
        block_hashes: Sequence[int],
        capacity: float,
        *,
        sizes: Sequence[float] | None = None,
        max_blocks: int | None = None,
    ) -> None:
        """The replica was sent this prompt: it will hold these blocks, and of all no more than `capacity`.

        `sizes` are the blocks', in the unit of `capacity`; each is 1 where they are not given. `max_blocks`
        bounds what is remembered of the replica, however much it holds.
        """
        used = self._used.get(replica)
        if used is None:
            used = self._used[replica] = _Used()
        blocks, masks = used.blocks, self._masks
        bit = 1 << replica
        for block, size in zip(
            reversed(block_hashes), repeat(1.0) if sizes is None else reversed(sizes), strict=False
        ):
            before = blocks.get(block)
            if before is None:
                masks[block] = masks.get(block, 0) | bit
                used.size += size
            else:
                blocks.move_to_end(block)
                used.size += size - before
            blocks[block] = size
        while used.size > capacity or (max_blocks is not None and len(blocks) > max_blocks):
            block, size = blocks.popitem(last=False)
            used.size -= size
            self._drop(block, bit)

    def stored(self, replica: int, block_hashes: Iterable[int]) -> None:
        """The replica said that it holds these blocks."""
        bit = 1 << replica
        masks = self._masks
        for block in block_hashes:
            masks[block] = masks.get(block, 0) | bit

    def removed(self, replica: int, block_hashes: Iterable[int]) -> None:
        """The replica said that it no longer holds these blocks."""
        bit = 1 << replica
        for block in block_hashes:
            self._drop(block, bit)

    def forget(self, replica: int) -> None:
        """The replica restarted or is gone: it holds nothing."""
        bit = 1 << replica
        self._used.pop(replica, None)
        for block in [block for block, mask in self._masks.items() if mask & bit]:
            self._drop(block, bit)

    def _drop(self, block: int, bit: int) -> None:
        mask = self._masks.get(block, 0) & ~bit
        if mask:
            self._masks[block] = mask
        else:
            self._masks.pop(block, None)


def most_of(*groups: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """How much replicas hold, most first: for each the largest of what several `groups` tell."""
    found: list[tuple[float, int]] = []
    seen = 0
    for held, replicas in sorted(chain(*groups), reverse=True):
        some = replicas & ~seen
        if some:
            found.append((held, some))
            seen |= some
    return found


def members(mask: int) -> Iterator[int]:
    """The replicas of a set, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
