"""Which replica holds which blocks of prompt, as far as the requests sent there tell."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

# A 64-bit int, its node and its share of the table in an OrderedDict; measured on CPython 3.11, 64-bit.
ENTRY_BYTES = 224


class Residency:
    """For each replica, the blocks of the prompts it was sent, least recently used forgotten first.

    All replicas together keep within `capacity_bytes` of router memory, an equal share each. A block is
    never kept without the blocks before it, since each prompt's first blocks count as used last.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._held: dict[str, OrderedDict[int, None]] = {}
        # One request asks for each replica several times over; its answers, until something is recorded.
        self._asked: Sequence[int] | None = None
        self._answers: dict[str, int] = {}

    @property
    def size_bytes(self) -> int:
        """Memory that the index takes, by its own estimate."""
        return ENTRY_BYTES * sum(len(blocks) for blocks in self._held.values())

    def num_prefix_blocks(self, url: str, block_hashes: Sequence[int]) -> int:
        """How many of the prompt's first blocks the replica holds, by bisection: none lacks its parents."""
        if block_hashes is not self._asked:
            self._asked, self._answers = block_hashes, {}
        found = self._answers.get(url)
        if found is None:
            found = self._answers[url] = self._count(url, block_hashes)
        return found

    def _count(self, url: str, block_hashes: Sequence[int]) -> int:
        blocks = self._held.get(url)
        if not blocks or not block_hashes or block_hashes[0] not in blocks:
            return 0
        low, high = 1, len(block_hashes)
        while low < high:
            middle = (low + high + 1) // 2
            if block_hashes[middle - 1] in blocks:
                low = middle
            else:
                high = middle - 1
        return low

    def record(self, url: str, block_hashes: Sequence[int]) -> None:
        """The replica was sent this prompt and will hold it."""
        if not block_hashes:
            return
        self._asked = None
        blocks = self._held.get(url)
        if blocks is None:
            blocks = self._held[url] = OrderedDict()
            self._shrink_all()
        for block_hash in reversed(block_hashes):
            blocks[block_hash] = None
            blocks.move_to_end(block_hash)
        self._shrink(blocks)

    def forget(self, url: str) -> None:
        """The replica restarted or is gone: it holds nothing."""
        self._asked = None
        self._held.pop(url, None)

    def _shrink_all(self) -> None:
        for blocks in self._held.values():
            self._shrink(blocks)

    def _shrink(self, blocks: OrderedDict[int, None]) -> None:
        capacity = self.capacity_bytes // (ENTRY_BYTES * len(self._held))
        while len(blocks) > capacity:
            blocks.popitem(last=False)
