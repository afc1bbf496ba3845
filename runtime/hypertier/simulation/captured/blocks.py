"""Which blocks a prompt's tokens are, where its bytes and its number of tokens are known, and not its tokens.

A prompt is known by the digests of its beginnings, each `CELL_BYTES` longer than the one before. The first
request that shows a beginning says how many tokens it is, by its own tokens a byte; for all others it stands.
So blocks are cut at the same place in all prompts that begin alike, however many bytes a token has in each.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass

from hypertier.simulation.trace import BLOCK_TOKENS

CELL_BYTES = 512
_UNIT = 1024
"""Parts of a token in which positions are kept, as whole numbers: sums of them are exact."""


@dataclass(frozen=True, slots=True)
class Digests:
    """Of a prompt's beginnings of whole cells, and of all of it, with what it must not share blocks with."""

    cells: array[int]
    whole: int
    num_bytes: int


def digests(text: bytes, seed: bytes) -> Digests:
    """Digests of 64 bits; other seeds, other digests."""
    state = hashlib.blake2b(seed, digest_size=8, person=b"hypertier trace")
    cells = array("Q")
    num_cells = len(text) // CELL_BYTES
    for start in range(0, num_cells * CELL_BYTES, CELL_BYTES):
        state.update(text[start : start + CELL_BYTES])
        cells.append(int.from_bytes(state.copy().digest()))
    state.update(text[num_cells * CELL_BYTES :])
    return Digests(cells, int.from_bytes(state.digest()), len(text))


class Blocks:
    """Numbers the blocks of prompts in the order in which they are first seen: 0, 1, 2 and so on."""

    def __init__(self) -> None:
        self.num_blocks = 0
        self._places: dict[int, int] = {}
        self._positions = array("q")  # by place: tokens up to the end of the cell, in 1 / _UNIT
        self._firsts = array("q")  # by place: the number of the first block that ends in the cell
        self._ends: dict[tuple[int, int], int] = {}

    def number(self, prompt: Digests, num_tokens: int) -> tuple[list[int], int]:
        """The numbers of the prompt's blocks, the last one perhaps a part; how many full ones are old."""
        num_full, rest = divmod(num_tokens, BLOCK_TOKENS)
        num_all = num_full + (rest > 0)
        num_before = self.num_blocks
        numbers: list[int] = []
        position = 0
        known_bytes, known = 0, 0
        for index, digest in enumerate(prompt.cells):
            place = self._places.get(digest)
            if place is None:
                end = (index + 1) * CELL_BYTES
                share = (end - known_bytes) * max(num_tokens * _UNIT - known, 0)
                place = self._add(digest, position, known + share // (prompt.num_bytes - known_bytes))
            else:
                known_bytes, known = (index + 1) * CELL_BYTES, self._positions[place]
            count = _blocks(self._positions[place]) - _blocks(position)
            numbers.extend(range(self._firsts[place], self._firsts[place] + count))
            position = self._positions[place]
            if len(numbers) >= num_full:
                break
        del numbers[num_full:]
        missing = num_all - len(numbers)
        if missing:
            key = (prompt.whole, num_tokens)
            first = self._ends.get(key)
            if first is None:
                first = self._ends[key] = self.num_blocks
                self.num_blocks += missing
            numbers.extend(range(first, first + missing))
        return numbers, sum(number < num_before for number in numbers[:num_full])

    def _add(self, digest: int, before: int, position: int) -> int:
        place = self._places[digest] = len(self._positions)
        self._positions.append(position)
        self._firsts.append(self.num_blocks)
        self.num_blocks += _blocks(position) - _blocks(before)
        return place


def _blocks(position: int) -> int:
    """Full blocks up to a position."""
    return position // (_UNIT * BLOCK_TOKENS)
