"""What follows a request in its own time: chunks in use live on, and tenants are held to their quotas.

vLLM asks the tier about chunks that neither the GPU nor L1 holds. Without this, a prefix so hot that it never
leaves them would expire from L2, and be missing there after a restart.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from hypertier.tier.backends.backend import Ledger
from hypertier.tier.circuit import Circuit
from hypertier.tier.entries import Entries
from hypertier.tier.guard import Guard
from hypertier.tier.metrics import Counters
from hypertier.tier.tenants import TAG_BYTES, Tenants, tag_of_key

BATCH = 64  # chunks in one request to L2, and looked at before the engine's scheduler may have its turn
CAPACITY = 131_072  # chunks whose last refresh is remembered, some 25 MB
RENEWALS_PER_LIFE = 2  # at least, and
RENEWAL_SECONDS = 1800.0  # at least so often: a store that is full evicts what was not touched for longest
LEDGER_SECONDS = 300.0  # of a tenant with a quota, uses within it count as one
UNACCOUNTED_SHARE = 32  # of a quota, one part may be under way from each engine,
UNACCOUNTED_CHUNKS = 64  # or so many chunks, where that is more: a prompt is to find room at once
RETRY_SECONDS = 1.0
MOST_NOTES = 4096  # that wait: an L2 that is slow but answers must not gather what is done in each step
APART_SECONDS = 1e-6  # a chunk counts as used this much before the one in front of it: prefixes outlive ends


class Note(NamedTuple):
    """Chunks that were stored or used, and when, however late that is written down."""

    is_store: bool
    keys: Iterable[bytes]
    at: float


class Upkeep:
    """Works on a thread of its own, behind a circuit; a failing L2 is counted, and asked again later.

    A chunk in use is renewed by an engine when half of its life has passed, or half an hour. Each tenant with
    a quota has a ledger in L2, shared by all engines, of what it keeps. When that exceeds the quota the
    tenant's own chunks go, the longest unused first. What an engine has stored but not yet written down is
    bounded, so a ledger that cannot be reached stops a tenant's stores.

    What comes within `gather_seconds` is done in one go: a thread that wakes takes the interpreter's lock
    from the engine.
    """

    def __init__(
        self,
        entries: Entries,
        tenants: Tenants,
        counters: Counters,
        on_change: Callable[[str, Exception | None], None],
        ledger: Ledger | None = None,
        timeout_seconds: float = 1.0,
        new_circuit: Callable[[], Circuit] = Circuit,
        clock: Callable[[], float] = time.time,
        gather_seconds: float = 0.0,
    ) -> None:
        self._gather_seconds = gather_seconds
        self._over = threading.Event()
        self._entries = entries
        self._tenants = tenants
        self._counters = counters
        self._guard = Guard("upkeep", new_circuit(), counters, on_change)
        self._ledger = ledger
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._renewed_at: OrderedDict[bytes, float] = OrderedDict()
        self._owed: dict[bytes, dict[bytes, float]] = {}  # uses that no ledger knows of yet, by tenant
        self._owed_stores: Counter[bytes] = Counter()
        self._lock = threading.Lock()
        self._unaccounted: Counter[bytes] = Counter()
        self._gone: list[bytes] = []
        self._notes: queue.SimpleQueue[Note | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="hypertier-upkeep", daemon=True)
        self._thread.start()

    def admits(self, key: bytes) -> bool:
        """Whether the tenant may store another chunk now. After a yes: `stored` or `abandoned`."""
        limit = self._limit(key)
        if limit is None:
            return True
        tag = tag_of_key(key)
        with self._lock:
            if self._unaccounted[tag] >= min(limit, max(UNACCOUNTED_CHUNKS, limit // UNACCOUNTED_SHARE)):
                return False
            self._unaccounted[tag] += 1
        return True

    def stored(self, keys: Sequence[bytes]) -> None:
        """Chunks were stored, each in front of the next.

        Those of a tenant with a quota are noted in any case: what waits of them is bounded by `admits`.
        """
        if not self._is_behind or any(self._limit(key) is not None for key in keys):
            self._notes.put(Note(True, keys, self._clock()))

    def abandoned(self, keys: Sequence[bytes]) -> None:
        """Chunks were admitted but not stored."""
        for key in keys:
            if self._limit(key) is not None:
                self._account(tag_of_key(key), 1)

    def used(self, keys: Iterable[bytes]) -> None:
        """Chunks are in use, each in front of the next; `keys` is gone through later, by another thread.

        While L2 is left alone nothing is noted, and no thread wakes, nor while the thread is far behind: what
        is still in use is heard of again.
        """
        if (self._guard.circuit.is_closed or self._guard.circuit.may_try) and not self._is_behind:
            self._notes.put(Note(False, keys, self._clock()))

    @property
    def _is_behind(self) -> bool:
        return self._notes.qsize() >= MOST_NOTES

    @property
    def has_gone(self) -> bool:
        """Whether chunks were removed since `take_gone`."""
        return bool(self._gone)

    def take_gone(self) -> list[bytes]:
        """Return the chunks that were removed since the last call."""
        with self._lock:
            gone, self._gone = self._gone, []
        return gone

    def close(self, timeout_seconds: float) -> None:
        """End the connections and the thread; what it has not done is left."""
        self._entries.close()
        self._over.set()
        self._notes.put(None)
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while (notes := self._take_notes()) is not None:
            due: dict[bytes, float] = {}
            for note in notes:
                try:
                    self._read(note, due)
                except Exception:  # the boundary: `keys` is vLLM's, and nothing it does may end this thread
                    self._counters.add("upkeep_errors")
            self._renew(due)
            for tag in list(self._owed):
                if not self._settle(tag) and not self._guard.circuit.is_closed:
                    break  # all of L2 is away, not only the server of this tenant's ledger

    def _read(self, note: Note, due: dict[bytes, float]) -> None:
        """Go through a note; what is to be renewed is added to `due`, with when it was used."""
        now = self._clock()
        for place, key in enumerate(note.keys):
            if place % BATCH == BATCH - 1:
                time.sleep(0)  # let go of the interpreter's lock
            at = note.at - place * APART_SECONDS
            if note.is_store:
                self._remember(key, now)
                self._owe(key, at, num_stores=1)
            elif now - self._renewed_at.get(key, float("-inf")) >= self._pause(key):
                due[key] = at

    def _take_notes(self) -> list[Note] | None:
        """Everything there is to do, None at the end; waits, but not long where something is owed."""
        notes: list[Note] = []
        try:
            note = self._notes.get(timeout=RETRY_SECONDS if self._owed else None)
            self._over.wait(self._gather_seconds)
            while note is not None:
                notes.append(note)
                note = self._notes.get_nowait()
        except queue.Empty:
            return notes
        return None

    def _renew(self, due: dict[bytes, float]) -> None:
        for batch in batches(due):
            found: list[bool] | None = self._guard.call(partial(self._entries.refresh, batch), None)
            if found is None:
                return  # what is still in use is heard of again
            now = self._clock()
            self._counters.add("chunks_renewed", sum(found))
            for key, is_there in zip(batch, found, strict=True):
                self._remember(key, now)
                if is_there:
                    self._owe(key, due[key])

    def _owe(self, key: bytes, at: float, num_stores: int = 0) -> None:
        if self._limit(key) is not None:
            tag = tag_of_key(key)
            self._owed.setdefault(tag, {})[key[TAG_BYTES:]] = at
            self._owed_stores[tag] += num_stores

    def _settle(self, tag: bytes) -> bool:
        """Write down what a tenant has used, and remove what is too much; returns whether L2 let it."""
        assert self._ledger is not None
        ledger, timeout = self._ledger, self._timeout_seconds
        ttl_seconds = self._entries.ttl_seconds(tag)
        owed = self._owed[tag]
        held = 0

        def note(uses: dict[bytes, float]) -> int:
            since = self._clock() - ttl_seconds
            return ledger.note(self._entries.ledger_name(tag), uses, since, ttl_seconds, timeout)

        for batch in batches(owed):
            uses = {member: owed[member] for member in batch}
            counted: int | None = self._guard.call(partial(note, uses), None)
            if counted is None:
                return False
            held = counted
        del self._owed[tag]
        settled = self._owed_stores.pop(tag, 0)
        self._remove_surplus(tag, held)
        self._account(tag, settled)
        return True

    def _account(self, tag: bytes, num_chunks: int) -> None:
        """So many of the chunks that were admitted are written down, or not stored."""
        with self._lock:
            self._unaccounted[tag] -= num_chunks
            if self._unaccounted[tag] <= 0:
                del self._unaccounted[tag]  # there may be as many tenants as requests

    def _remove_surplus(self, tag: bytes, held: int) -> None:
        ledger, timeout = self._ledger, self._timeout_seconds
        limit = self._limit(tag)
        assert ledger is not None
        assert limit is not None

        def remove(count: int) -> list[bytes]:
            name = self._entries.ledger_name(tag)
            members = ledger.surplus(name, limit, count, timeout)
            keys = [tag + member for member in members]  # whatever the ledger says, its own tenant's
            if members:
                ledger.remove_many([each for key in keys for each in self._entries.names(key)], timeout)
                ledger.forget(name, members, timeout)
            return keys

        while held > limit:
            none: list[bytes] = []
            removed = self._guard.call(partial(remove, held - limit), none)
            if not removed:
                return
            held -= len(removed)
            self._counters.add("quota_removals", len(removed))
            for key in removed:
                self._renewed_at.pop(key, None)
            with self._lock:
                self._gone += removed

    def _limit(self, key: bytes) -> int | None:
        """How many chunks the tenant may keep; None: any number."""
        quota = self._tenants.terms(key).quota_bytes
        return None if quota is None or self._ledger is None else quota // self._entries.entry_bytes

    def _pause(self, key: bytes) -> float:
        longest = RENEWAL_SECONDS if self._limit(key) is None else LEDGER_SECONDS
        return min(self._entries.ttl_seconds(key) / RENEWALS_PER_LIFE, longest)

    def _remember(self, key: bytes, now: float) -> None:
        self._renewed_at[key] = now
        self._renewed_at.move_to_end(key)
        if len(self._renewed_at) > CAPACITY:
            self._renewed_at.popitem(last=False)


def batches(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Cut keys into lists of at most `BATCH`."""
    left = iter(keys)
    while batch := list(islice(left, BATCH)):
        yield batch
