"""A paged cache of blocks: fixed memory, cut into pages; the block that was used least recently gives way."""

from __future__ import annotations

from collections import Counter, OrderedDict


class Pages:
    """Blocks by their hash, each a page of `page_bytes`. A pinned block is never given up.

    Not for several threads at once.
    """

    def __init__(self, num_pages: int, page_bytes: int) -> None:
        self._memory = memoryview(bytearray(num_pages * page_bytes))
        self._page_bytes = page_bytes
        self._free = list(range(num_pages))
        self._blocks: OrderedDict[bytes, int] = OrderedDict()
        self._pins: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def num_pages(self) -> int:
        """How many blocks fit."""
        return len(self._memory) // self._page_bytes

    def find(self, block_hash: bytes) -> memoryview | None:
        """Return a block's page and count it as used; None when the block is not here."""
        page = self._blocks.get(block_hash)
        if page is None:
            return None
        self._blocks.move_to_end(block_hash)
        return self._view(page)

    def put(self, block_hash: bytes) -> memoryview | None:
        """Return the page that now belongs to the block, for the caller to fill.

        None when every page is pinned.
        """
        known = self.find(block_hash)
        if known is not None:
            return known
        page = self._free.pop() if self._free else self._give_up()
        if page is None:
            return None
        self._blocks[block_hash] = page
        return self._view(page)

    def drop(self, block_hash: bytes) -> None:
        """Forget a block whose page was not filled after all."""
        page = self._blocks.pop(block_hash, None)
        if page is not None:
            self._free.append(page)

    def pin(self, block_hash: bytes) -> None:
        """Keep a block until as many `unpin`s."""
        self._pins[block_hash] += 1

    def unpin(self, block_hash: bytes) -> None:
        """Take one pin off."""
        self._pins[block_hash] -= 1
        self._pins += Counter()

    def clear(self) -> None:
        """Forget every block that is not pinned."""
        for block_hash in [known for known in self._blocks if known not in self._pins]:
            self.drop(block_hash)

    def _give_up(self) -> int | None:
        for block_hash in self._blocks:
            if block_hash not in self._pins:
                return self._blocks.pop(block_hash)
        return None

    def _view(self, page: int) -> memoryview:
        return self._memory[page * self._page_bytes : (page + 1) * self._page_bytes]
