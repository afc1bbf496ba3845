"""What replicas were sent, as a tree of prompts that begin alike: a lookup takes a step for each part.

A block's hash covers all blocks before it, so it names a place in the tree, and a run of blocks is found by
its first one. Hashes that do not, which other routers may tell, are remembered badly, and nothing worse.
Replicas are numbers from 0 on, and a set of them is a whole number with their bits set, as in
`holders`.

What takes long is put off: `forget` and `bound` take one step each, and what is forgotten is held no more.
What is left is done in pieces, by `tidy`, and with each `record`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from hypertier.router.kv.holders import members
from hypertier.router.strategies.loads import AS_BELIEVED, LESS, MORE

RUN_BYTES, BLOCK_BYTES = 640, 44
"""Memory of what one replica was sent: 540 to 560 a run, 40 to 43 a block, by tracemalloc on CPython 3.11."""
SHRINK, GROW = 0.9, 1.003
"""How far what a replica keeps is corrected by a beginning that was missing, and by one that was there."""
RUNS_AT_ONCE = 64
"""Of what was put off, so many runs go with each prompt that is recorded, which brings fewer."""


class Run:
    """Blocks that follow one another, and that the same replicas were sent.

    Prompts part, or end, behind its last block. `start` blocks come before it, the last of them in `above`.
    `passed` has for each replica the number of its latest prompt that came by here.
    """

    __slots__ = ("above", "blocks", "mask", "num_below", "passed", "start")

    def __init__(self, blocks: tuple[int, ...], start: int, above: Run | None) -> None:
        self.blocks = blocks
        self.start = start
        self.above = above
        self.mask = 0
        self.passed: dict[int, int] = {}
        self.num_below = 0


class _Used:
    """What one replica was sent. `ends` are the runs where its prompts ended, the one used longest ago first.

    What a prompt has behind its last block counts for the run where it ends, as long as none goes on there.
    `limit` is how much it was found to keep, where that is less than `capacity`, which it says. Its prompts
    are numbered on from `num_prompts`, above all of that replica that are forgotten and not yet tidied.
    """

    __slots__ = ("capacity", "ends", "limit", "num_blocks", "num_prompts", "num_runs", "replica", "size")

    def __init__(self, replica: int, num_prompts: int) -> None:
        self.replica = replica
        self.ends: OrderedDict[Run, float] = OrderedDict()
        self.capacity = math.inf
        self.limit = math.inf
        self.size = 0.0
        self.num_prompts = num_prompts
        self.num_runs = 0
        self.num_blocks = 0

    @property
    def num_bytes(self) -> int:
        return RUN_BYTES * self.num_runs + BLOCK_BYTES * self.num_blocks


class Prefixes:
    """Which replicas were sent how much of a prompt's beginning, the latest of each within its capacity.

    `offsets[n]` is the size of a prompt's first n blocks, in the unit of capacities. Of what was put off,
    `runs_at_once` go with each prompt.
    """

    def __init__(self, offsets: Sequence[float], *, runs_at_once: int = RUNS_AT_ONCE) -> None:
        self._offsets = offsets
        self._runs_at_once = runs_at_once
        self._runs: dict[Any, Run] = {}  # as numbers, hashes would cost more to take than to look up
        self._used: dict[int, _Used] = {}
        self._max_bytes = math.inf
        self.is_behind = False
        """Something was put off."""
        self._too_large: set[int] = set()
        self._is_bounded_anew = False
        self._gone: dict[int, list[_Used]] = {}  # what was forgotten and is still to be found in runs
        self._gone_mask = 0
        self._returned_mask = 0  # of these, replicas that were sent something since

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def num_blocks(self) -> int:
        """Blocks, once for each replica that was sent them."""
        return sum(used.num_blocks for used in self._used.values())

    def size(self, replica: int) -> float:
        """What the replica is believed to hold, in the unit of capacities."""
        used = self._used.get(replica)
        return used.size if used is not None else 0.0

    @property
    def num_bytes(self) -> int:
        """Memory that it takes, estimated, with what is forgotten and not yet tidied."""
        gone = sum(used.num_bytes for each in self._gone.values() for used in each)
        return gone + sum(used.num_bytes for used in self._used.values())

    def groups(self, block_hashes: Sequence[int]) -> list[tuple[int, int]]:
        """Replicas by how many of the prompt's first blocks they hold, most first.

        Returns pairs of a number of blocks, 1 or more, and the set of the replicas that hold just so many.
        """
        found: list[tuple[int, int]] = []
        at, num_blocks, above = 0, len(block_hashes), 0
        has_gone = self._gone_mask != 0
        while at < num_blocks:
            first: Any = block_hashes[at]
            run = self._runs.get(first)
            if run is None or run.start != at:
                break
            mask = self._holding(run) if has_gone else run.mask
            if above and mask != above:
                found.append((at, above & ~mask))
            above = mask
            num = _num_shared(run.blocks, block_hashes, at)
            at += num
            if num < len(run.blocks):
                break
        if above:
            found.append((at, above))
        found.reverse()
        return found

    def record(
        self,
        replica: int,
        block_hashes: Sequence[int],
        capacity: float,
        *,
        rest: float = 0.0,
        max_bytes: float = math.inf,
    ) -> bool:
        """The replica was sent this prompt: it will hold these blocks, and of all no more than `capacity`.

        Returns whether it goes on where a prompt ended that the replica was sent before.

        `rest` is the size of what follows the last block. `max_bytes` bounds the memory for the replica,
        however much it holds, and for those whose runs this prompt parts.
        """
        if not block_hashes:
            return False
        used = self._used.get(replica)
        if used is None:
            used = self._begin(replica)
        self._max_bytes = max_bytes
        path, goes_on = self._way(block_hashes, 1 << replica, used)
        used.num_prompts = number = used.num_prompts + 1
        last = path[-1]
        for run in path:
            run.passed[replica] = number
            if run is not last and run in used.ends:
                used.size -= used.ends.pop(run)
                goes_on = True
        used.size += rest - used.ends.pop(last, 0.0)
        used.ends[last] = rest
        used.capacity = capacity
        if used.size > min(capacity, used.limit) or used.num_bytes > max_bytes:
            self._trim(used, self._runs_at_once)
        if self.is_behind:
            self.tidy(self._runs_at_once)
        return goes_on

    def correct(self, replica: int, surprise: int, size: float) -> None:
        """The time of a prompt of that size told whether the replica held what it was believed to.

        `SHRINK` and `GROW` let one in thirty of the beginnings that are believed to be held be missing. Where
        a replica keeps what it says, none is, and `capacity` alone bounds. A whole prompt it always keeps.
        """
        used = self._used.get(replica)
        if used is None:
            return
        if surprise == LESS:
            used.limit = max(size, min(used.limit, used.size) * SHRINK)
        elif surprise == MORE:
            used.limit /= SHRINK
        elif surprise == AS_BELIEVED:
            used.limit *= GROW

    def bound(self, max_bytes: float) -> None:
        """Each replica may take so much memory from now on, those that are sent nothing as well."""
        self._max_bytes = max_bytes
        self._is_bounded_anew = self.is_behind = True

    def forget(self, replica: int) -> None:
        """The replica restarted or is gone: it holds nothing."""
        used = self._used.pop(replica, None)
        if used is not None and used.ends:
            self._too_large.discard(replica)
            self._gone.setdefault(replica, []).append(used)
            self._gone_mask |= 1 << replica
            self._returned_mask &= ~(1 << replica)
            self.is_behind = True

    def tidy(self, max_runs: int) -> bool:
        """Drop about so many runs of what is forgotten, and of what takes too much; whether more is left.

        One prompt's are dropped at once, and one replica counts as one run at least.
        """
        num_runs = 0
        while num_runs < max_runs:
            if self._gone:
                num_runs += self._bury()
            elif self._too_large:
                used = self._used.get(self._too_large.pop())
                num_runs += max(1, self._trim(used, max_runs - num_runs) if used is not None else 0)
            elif self._is_bounded_anew:
                self._too_large.update(self._used)
                self._is_bounded_anew = False
            else:
                self.is_behind = False
                break
        return self.is_behind

    def _begin(self, replica: int) -> _Used:
        """It is sent the first prompt, or the first since it was forgotten."""
        gone = self._gone.get(replica)
        if gone is not None:
            self._returned_mask |= 1 << replica
        used = self._used[replica] = _Used(replica, gone[-1].num_prompts if gone is not None else 0)
        return used

    def _bury(self) -> int:
        """Drop the runs that one forgotten prompt brought; returns how many, 1 at least."""
        replica = next(iter(self._gone))
        gone = self._gone[replica]
        if gone[0].ends:
            return self._forget_oldest(gone[0], 0.0, -1.0)
        del gone[0]
        if not gone:
            del self._gone[replica]
            self._gone_mask &= ~(1 << replica)
            self._returned_mask &= ~(1 << replica)
        return 1

    def _trim(self, used: _Used, max_runs: int) -> int:
        """Hold a replica to its bounds, as far as so many runs go; returns how many went."""
        num_runs = 0
        capacity = min(used.capacity, used.limit)
        while used.ends and (used.size > capacity or used.num_bytes > self._max_bytes):
            if num_runs >= max_runs:
                self._too_large.add(used.replica)
                self.is_behind = True
                break
            num_runs += self._forget_oldest(used, capacity, self._max_bytes)
        return num_runs

    def _holding(self, run: Run) -> int:
        """The replicas that hold a run, without those by which it is forgotten."""
        mask = run.mask & ~(self._gone_mask & ~self._returned_mask)
        returned = mask & self._returned_mask
        if returned:
            for replica in members(returned):
                if run.passed[replica] <= self._gone[replica][-1].num_prompts:
                    mask &= ~(1 << replica)
        return mask

    def _owner(self, replica: int, number: int) -> _Used | None:
        """What the replica's prompt of that number counts for, forgotten or not."""
        gone = self._gone.get(replica)
        if gone is not None:
            for used in gone:
                if number <= used.num_prompts:
                    return used
        return self._used.get(replica)

    def _way(self, block_hashes: Sequence[int], bit: int, used: _Used) -> tuple[list[Run], bool]:
        """The runs of a prompt, made and parted where there are none yet; the replica holds them all.

        With them, whether the last one is longer now, and a prompt ended where it did.
        """
        goes_on = False
        path: list[Run] = []
        at, num_blocks = 0, len(block_hashes)
        last: Run | None = None
        has_gone = self._gone_mask & bit != 0
        while at < num_blocks:
            first: Any = block_hashes[at]
            run = self._runs.get(first)
            if run is None or run.above is not last:
                break
            num = _num_shared(run.blocks, block_hashes, at)
            if num < len(run.blocks):
                run = self._part(run, num)
            if not run.mask & bit:
                self._take(run, bit, used)
            elif has_gone:
                self._take_again(run, bit, used)
            path.append(run)
            last = run
            at += num
        if at < num_blocks:
            more = tuple(block_hashes[at:])
            if last is not None and last.mask == bit and not last.num_below:
                goes_on = last in used.ends
                last.blocks += more
                used.num_blocks += len(more)
                used.size += self._offsets[num_blocks] - self._offsets[at]
            else:
                run = self._runs[more[0]] = Run(more, at, last)
                if last is not None:
                    last.num_below += 1
                self._take(run, bit, used)
                path.append(run)
        return path, goes_on

    def _take(self, run: Run, bit: int, used: _Used) -> None:
        """The replica was sent the run."""
        run.mask |= bit
        end = run.start + len(run.blocks)
        used.size += self._offsets[end] - self._offsets[run.start]
        used.num_blocks += len(run.blocks)
        used.num_runs += 1

    def _take_again(self, run: Run, bit: int, used: _Used) -> None:
        """The replica was sent a run that may be one of those that it forgot."""
        owner = self._owner(used.replica, run.passed[used.replica])
        if owner is not None and owner is not used:
            owner.num_blocks -= len(run.blocks)
            owner.num_runs -= 1
            self._take(run, bit, used)

    def _drop(self, used: _Used, run: Run) -> None:
        """The replica no longer holds the run, nor anything below it."""
        run.mask &= ~(1 << used.replica)
        del run.passed[used.replica]
        end = run.start + len(run.blocks)
        used.size -= self._offsets[end] - self._offsets[run.start]
        used.num_blocks -= len(run.blocks)
        used.num_runs -= 1
        if not run.mask:
            if self._runs.get(run.blocks[0]) is run:
                del self._runs[run.blocks[0]]
            if run.above is not None:
                run.above.num_below -= 1

    def _part(self, run: Run, num: int) -> Run:
        """Part a run behind its first `num` blocks: these become another one, which is returned."""
        head = Run(run.blocks[:num], run.start, run.above)
        head.mask = run.mask
        head.passed = dict(run.passed)
        head.num_below = 1
        run.blocks = run.blocks[num:]
        run.start += num
        run.above = head
        self._runs[head.blocks[0]] = head
        self._runs[run.blocks[0]] = run
        for replica, number in head.passed.items():
            used = self._owner(replica, number) if self._gone_mask else self._used.get(replica)
            if used is not None:
                used.num_runs += 1
                if used.num_bytes > self._max_bytes:
                    self._too_large.add(replica)
                    self.is_behind = True
        return head

    def _forget_oldest(self, used: _Used, capacity: float, max_bytes: float) -> int:
        """Forget what the prompt brought that was used longest ago, from its end on, as far as need be.

        Returns how many runs it went through, 1 at least.
        """
        replica = used.replica
        last, rest = used.ends.popitem(last=False)
        used.size -= rest
        number = last.passed.get(replica)
        if number is None or number > used.num_prompts:  # forgotten, and sent again since
            return 1
        num_runs = 0
        run: Run | None = last
        while run is not None and run.passed.get(replica) == number:
            num_runs += 1
            above = run.above
            num_kept = 0
            if used.num_bytes <= max_bytes:
                num_kept = self._num_within(run, used.size - capacity, is_whole=run is not last)
            if num_kept:
                kept = run
                if num_kept < len(run.blocks):
                    kept = self._part(run, num_kept)
                    self._drop(used, run)
                used.ends[kept] = 0.0
                used.ends.move_to_end(kept, last=False)
                return num_runs
            self._drop(used, run)
            run = above
        return num_runs

    def _num_within(self, run: Run, excess: float, *, is_whole: bool) -> int:
        """How many of a run's blocks can stay where so much has to go; all at most where it `is_whole`."""
        end = run.start + len(run.blocks)
        if excess <= 0:
            return len(run.blocks) - (not is_whole)
        place = bisect_right(self._offsets, self._offsets[end] - excess, run.start, end)
        return max(0, place - 1 - run.start)


def _num_shared(blocks: Sequence[int], block_hashes: Sequence[int], at: int) -> int:
    """How many of `blocks` stand at `at`, the first of which does; a hash covers all before it."""
    num = min(len(blocks), len(block_hashes) - at)
    if blocks[num - 1] == block_hashes[at + num - 1]:
        return num
    low, high = 1, num - 1
    while low < high:
        middle = (low + high) // 2
        if blocks[middle] == block_hashes[at + middle]:
            low = middle + 1
        else:
            high = middle
    return low
