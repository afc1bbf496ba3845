"""The engine itself: a prompt's blocks come from its own memory, L1 or L2, and the rest is "computed"."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypertier.lab.simulated.pages import Pages
from hypertier.lab.simulated.prompt import block_hashes, made_up_kv, made_up_words
from hypertier.lab.simulated.settings import EngineSettings
from hypertier.tier.cache import L2Cache
from hypertier.tier.transfers import FinishedJob

STEP_SECONDS = 0.002
CLOSE_SECONDS = 5.0
DEVICE, HOST, DISK = "device", "host", "disk"  # vLLM's names for where cached tokens came from


@dataclass(frozen=True)
class Prefill:
    """What became of a prompt: its cached tokens by source, and the words that follow it, without end."""

    cached_tokens: Mapping[str, int]
    words: Iterator[str]

    @property
    def num_cached_tokens(self) -> int:
        """Tokens that were not computed."""
        return sum(self.cached_tokens.values())


class SimulatedEngine:
    """Works on one prompt at a time, called from any thread.

    L2 is asked step by step, as vLLM's scheduler asks it; what it fails to give is computed.
    """

    def __init__(
        self, settings: EngineSettings, l2: L2Cache | None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.settings = settings
        self._l2 = l2
        self._sleep = sleep
        self._lock = threading.Lock()
        self._device = Pages(settings.kv_cache_bytes // settings.block_bytes, settings.block_bytes)
        self._host = Pages(settings.l1_bytes // settings.block_bytes, settings.block_bytes)
        self._numbers = itertools.count()
        self._stores: dict[int, Sequence[bytes]] = {}

    @property
    def usage_ratio(self) -> float:
        """Share of the engine's own memory that holds blocks, 0.0 to 1.0."""
        return len(self._device) / self._device.num_pages

    def prefill(self, tokens: Sequence[int]) -> Prefill:
        """Find or compute the blocks of a prompt; returns when its first word can be said."""
        block_size = self.settings.block_size
        hashes = block_hashes(tokens, block_size)
        with self._lock:
            promoted = self._promote(hashes)
            found = self._find(hashes, promoted)
            self._sleep((len(tokens) - len(found) * block_size) * self.settings.prefill_seconds_per_token)
            blocks = [*(page for _, page in found), *self._compute(hashes[len(found) :])]
            words = made_up_words(blocks, tokens[len(blocks) * block_size :])
            first = next(words)  # while the pages are this prompt's
        sources = Counter(source for source, _ in found)
        cached = {source: count * block_size for source, count in sources.items()}
        return Prefill(cached, itertools.chain([first], words))

    def reset(self, *, external: bool = False) -> None:
        """Forget the engine's own blocks, and with `external` those of L1."""
        with self._lock:
            self._finished()
            self._device.clear()
            if external:
                self._host.clear()

    def close(self) -> None:
        """Let L2 finish what it was given, and end its threads."""
        if self._l2 is not None:
            self._l2.drain()
            self._l2.close(CLOSE_SECONDS)

    def _promote(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Load into L1 what only L2 holds of the prefix; returns what arrived."""
        self._finished()
        missing = [
            each for each in hashes if self._device.find(each) is None and self._host.find(each) is None
        ]
        if self._l2 is None or not missing:
            return set()
        held, slots = self._take_slots(self._lookup(self._l2, missing))
        if not held:
            return set()
        job_id = next(self._numbers)
        self._l2.load(job_id, held, slots)
        while not (jobs := [job for job in self._finished() if job.job_id == job_id]):
            time.sleep(STEP_SECONDS)
        for block_hash in held:
            self._host.unpin(block_hash)
        for block_hash in jobs[0].failed:
            self._host.drop(block_hash)
        return set(jobs[0].moved)

    def _lookup(self, l2: L2Cache, hashes: Sequence[bytes]) -> list[bytes]:
        """The first blocks that L2 holds, up to a gap. Ends by the lookup deadline."""
        request_id = str(next(self._numbers))
        while None in (verdicts := [l2.lookup(request_id, block_hash) for block_hash in hashes]):
            l2.flush()
            time.sleep(STEP_SECONDS)
        l2.forget_request(request_id)
        return list(itertools.compress(hashes, itertools.takewhile(bool, verdicts)))

    def _find(self, hashes: Sequence[bytes], promoted: set[bytes]) -> list[tuple[str, memoryview]]:
        """The longest prefix that need not be computed: source and page of each block."""
        found: list[tuple[str, memoryview]] = []
        for block_hash in hashes:
            page = self._device.find(block_hash)
            source = DEVICE
            if page is None:
                in_host = self._host.find(block_hash)
                page = self._device.put(block_hash) if in_host is not None else None
                if page is None or in_host is None:
                    break
                page[:] = in_host
                source = DISK if block_hash in promoted else HOST
            found.append((source, page))
        return found

    def _compute(self, hashes: Sequence[bytes]) -> list[memoryview]:
        """Make blocks up, and store them in L1 and, in the background, in L2."""
        pages = []
        for block_hash in hashes:
            page = self._device.put(block_hash)
            assert page is not None, "nothing pins the engine's own pages"
            page[:] = made_up_kv(block_hash, self.settings.block_bytes)
            pages.append(page)
        stored, slots = self._take_slots(hashes)
        for page, slot in zip(pages, slots, strict=False):
            slot[:] = page
        if self._l2 is not None and stored:
            job_id = next(self._numbers)
            self._stores[job_id] = stored
            self._l2.store(job_id, stored, slots)
        else:
            for block_hash in stored:
                self._host.unpin(block_hash)
        return pages

    def _take_slots(self, hashes: Sequence[bytes]) -> tuple[list[bytes], list[memoryview]]:
        """Pinned slots of L1 for the first of the blocks, as many as it has."""
        taken: list[bytes] = []
        slots: list[memoryview] = []
        for block_hash in hashes:
            slot = self._host.put(block_hash)
            if slot is None:
                break
            self._host.pin(block_hash)
            taken.append(block_hash)
            slots.append(slot)
        return taken, slots

    def _finished(self) -> list[FinishedJob]:
        """The jobs of L2 that ended since the last call; L1 may give up what was stored."""
        jobs = [] if self._l2 is None else self._l2.take_finished()
        for job in jobs:
            for block_hash in self._stores.pop(job.job_id, ()):
                self._host.unpin(block_hash)
        return jobs
