"""Which replicas hold how much of a prompt's beginning: one lookup for all of them at once.

Replicas are numbers from 0 on, and a set of them is a whole number with their bits set. So a lookup costs as
many steps as there are different answers, however many replicas there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any


class Holders:
    """A block -> the replicas that hold it. No replica holds a block without all blocks before it.

    Fed by what engines say of themselves (`stored`, `removed`), or by what was sent where (`record`, which
    forgets what was used longest ago; `prefixes` does that for less).
    """

    def __init__(self) -> None:
        self._masks: dict[Any, int] = {}
        self._used: dict[int, OrderedDict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._masks)

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
        held, num_blocks = self._held, len(block_hashes)
        mask = held(block_hashes, names, 0) if num_blocks else 0
        found: list[tuple[int, int]] = []
        if not mask:
            return found
        # The last block that anybody holds: prompts grow at their end, so it is near.
        low, high, step = 0, num_blocks, 1
        while high - low > 1:
            middle = max((low + high) // 2, high - step)
            if held(block_hashes, names, middle):
                low, step = middle, num_blocks
            elif step < num_blocks:
                high, step = middle, 2 * step
            else:
                high = middle
        end, deepest, at = low + 1, held(block_hashes, names, low), 0
        while mask & ~deepest:
            # The last block that all of `mask` hold, by halves; it is before the last one of all.
            low, high = at, end - 1
            while high - low > 1:
                middle = (low + high) // 2
                if held(block_hashes, names, middle) & mask == mask:
                    low = middle
                else:
                    high = middle
            at = high
            deeper = held(block_hashes, names, at) & mask
            found.append((at, mask & ~deeper))
            mask = deeper
        if mask:
            found.append((end, mask))
        found.reverse()
        return found

    def _held(self, block_hashes: Sequence[int], names: Mapping[int, int] | None, number: int) -> int:
        """Who holds the block with this number."""
        block: Any = block_hashes[number]
        if names is not None:
            block = names.get(block, 0)
        return self._masks.get(block, 0)

    def record(self, replica: int, block_hashes: Sequence[int], capacity: int) -> None:
        """The replica was sent this prompt: it will hold these blocks, and no more than `capacity`."""
        used = self._used.setdefault(replica, OrderedDict())
        bit = 1 << replica
        for block in reversed(block_hashes):
            if block in used:
                used.move_to_end(block)
            else:
                used[block] = None
                self._masks[block] = self._masks.get(block, 0) | bit
        while len(used) > capacity:
            self._drop(used.popitem(last=False)[0], bit)

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

    def drop(self, replica: int, block: int) -> None:
        """The replica does not hold this block, whatever it said."""
        self._drop(block, 1 << replica)

    def forget(self, replica: int) -> None:
        """The replica restarted or is gone: it holds nothing."""
        bit = 1 << replica
        self._used.pop(replica, None)
        for block in [block for block, mask in self._masks.items() if mask & bit]:
            self._drop(block, bit)

    def _drop(self, block: Any, bit: int) -> None:
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


def members(mask: int) -> list[int]:
    """The replicas of a set, lowest first."""
    found: list[int] = []
    number = 0
    while mask and mask < _FEW:
        if mask & 1:
            found.append(number)
        mask >>= 1
        number += 1
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


_FEW = 1 << 16
"""Sets below are gone through bit by bit: that costs less than to find the next."""
