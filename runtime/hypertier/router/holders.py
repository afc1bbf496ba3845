"""Which replicas hold how much of a prompt's beginning: one lookup for all of them at once.

Replicas are numbers from 0 on, and a set of them is a whole number with their bits set. So a lookup costs as
many steps as there are different answers, however many replicas there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

_SLACK = 1024
"""Blocks of prompts that may be kept beside twice those that are remembered; more is tidied up."""


class _Prompt:
    """A prompt's blocks from its number `first` on, and their sizes; `num_left` of them may be of use."""

    __slots__ = ("blocks", "first", "num_left", "sizes")

    def __init__(self, blocks: Sequence[int], sizes: Sequence[float] | None) -> None:
        self.blocks = blocks
        self.sizes = sizes
        self.first = 0
        self.num_left = len(blocks)

    def size(self, number: int) -> float:
        """Of the prompt's block with this number."""
        at = number - self.first
        return self.sizes[at] if self.sizes is not None and 0 <= at < len(self.sizes) else 1.0

    def is_last(self, number: int) -> bool:
        """The prompt ends with that block, as far as it is kept."""
        return number - self.first == len(self.blocks) - 1

    def leave_out(self, num_blocks: int) -> None:
        """Drop so many of the first."""
        self.blocks = self.blocks[num_blocks:]
        self.sizes = self.sizes[num_blocks:] if self.sizes is not None else None
        self.first += num_blocks
        self.num_left -= num_blocks


class _Used:
    """What one replica was sent: a block -> the `latest` prompt with it, and those prompts in their order.

    To use a block again is to write one entry. A block used longest ago is of the first prompt that is the
    latest of any of its blocks; those are its last ones, since every block has all before it.
    """

    __slots__ = ("_num_kept", "_prompts", "latest", "size")

    def __init__(self) -> None:
        self.latest: dict[Any, _Prompt] = {}  # to take a block as a number would cost more than to look it up
        self.size = 0.0
        self._prompts: deque[_Prompt] = deque()
        self._num_kept = 0

    def keep(self, prompt: _Prompt) -> None:
        """It is the latest of all of its blocks."""
        self._prompts.append(prompt)
        self._num_kept += prompt.num_left
        if self._num_kept > 2 * len(self.latest) + _SLACK:
            self._tidy()

    def pop_oldest(self) -> Any:
        """Forget the block that was used longest ago, of which there is one, and return it."""
        latest = self.latest
        while True:
            prompt = self._prompts[0]
            while prompt.num_left:
                prompt.num_left -= 1
                self._num_kept -= 1
                block: Any = prompt.blocks[prompt.num_left]
                if latest.get(block) is prompt:
                    del latest[block]
                    self.size = self.size - prompt.size(prompt.first + prompt.num_left) if latest else 0.0
                    return block
            self._prompts.popleft()

    def _tidy(self) -> None:
        latest = self.latest
        kept: deque[_Prompt] = deque()
        self._num_kept = 0
        for prompt in self._prompts:
            own, end = 0, prompt.num_left  # from `own` on they are its own
            while own < end:
                middle = (own + end) // 2
                if latest.get(prompt.blocks[middle]) is prompt:
                    end = middle
                else:
                    own = middle + 1
            if own < prompt.num_left:
                prompt.leave_out(own)
                kept.append(prompt)
                self._num_kept += prompt.num_left
        self._prompts = kept


class Holders:
    """A block -> the replicas that hold it. No replica holds a block without all blocks before it.

    Fed by what was sent where (`record`, which forgets what was used longest ago once a replica's capacity is
    reached), or by what engines say of themselves (`stored`, `removed`).
    """

    def __init__(self) -> None:
        self._masks: dict[Any, int] = {}
        self._used: dict[int, _Used] = {}

    def __len__(self) -> int:
        return len(self._masks)

    @property
    def num_recorded(self) -> int:
        """Blocks in `record`'s memory, once for each replica that holds one."""
        return sum(len(used.latest) for used in self._used.values())

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
        at = 0
        while mask:
            # The last block that all of `mask` hold, by doubling steps and then by halves.
            step = 1
            low = at
            while low + step < num_blocks and held(block_hashes, names, low + step) & mask == mask:
                low += step
                step *= 2
            high = min(low + step, num_blocks)
            while high - low > 1:
                middle = (low + high) // 2
                if held(block_hashes, names, middle) & mask == mask:
                    low = middle
                else:
                    high = middle
            deeper = held(block_hashes, names, low + 1) & mask if low + 1 < num_blocks else 0
            found.append((low + 1, mask & ~deeper))
            mask = deeper
            at = low + 1
        found.reverse()
        return found

    def _held(self, block_hashes: Sequence[int], names: Mapping[int, int] | None, number: int) -> int:
        """Who holds the block with this number."""
        block: Any = block_hashes[number]
        if names is not None:
            block = names.get(block, 0)
        return self._masks.get(block, 0)

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
        latest, masks = used.latest, self._masks
        bit, size, last = 1 << replica, used.size, len(block_hashes) - 1
        prompt = _Prompt(block_hashes, sizes)
        for number in range(last + 1):
            block: Any = block_hashes[number]
            before = latest.get(block)
            if before is None:
                masks[block] = masks.get(block, 0) | bit
                size += prompt.size(number)
            elif number == last or before.is_last(number):  # others have a size of their own
                size += prompt.size(number) - before.size(number)
            latest[block] = prompt
        used.size = size
        used.keep(prompt)
        while latest and (used.size > capacity or (max_blocks is not None and len(latest) > max_blocks)):
            self._drop(used.pop_oldest(), bit)

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
