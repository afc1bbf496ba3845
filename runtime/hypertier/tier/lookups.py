"""Which chunks L2 holds: asked in the background, remembered for a while, answered without waiting."""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hypertier.tier.metrics import Counters

MOST_KEYS = 4096  # in one request to L2, but for a batch that is larger


@dataclass
class _Prefix:
    begun_at_batch: int
    is_worth_it: bool = False
    keys: dict[bytes, None] = field(default_factory=dict)  # in the order asked


@dataclass
class _Verdict:
    since: float  # when asked, then when answered
    found: bool | None = None


class Verdicts:
    """What is known, and what to answer meanwhile. Used by one thread; holds at most `capacity` verdicts.

    A key that is asked about is unknown (None) until L2 answered, but no longer than `deadline_seconds` from
    when it was first asked: then it is a miss. A miss stays one for the request that was told so; another
    request sees verdicts only as long as they are fresh, and asks again where no answer came.

    What a request asks about before the first `take_batch` is its prefix. Where L2 holds less of it than the
    `min_chunks` of `ask`, none of it is a hit.
    """

    def __init__(
        self,
        deadline_seconds: float,
        counters: Counters,
        clock: Callable[[], float] = time.monotonic,
        hit_seconds: float = 30.0,
        miss_seconds: float = 2.0,
        capacity: int = 65_536,
    ) -> None:
        self._deadline = deadline_seconds
        self._counters = counters
        self._clock = clock
        self._hit_seconds = hit_seconds
        self._miss_seconds = miss_seconds
        self._capacity = capacity
        self._verdicts: OrderedDict[bytes, _Verdict] = OrderedDict()
        self._unasked: list[bytes] = []
        self._missed: dict[str, set[bytes]] = {}
        self._prefixes: dict[str, _Prefix] = {}
        self._batch_number = 0

    def ask(self, request_id: str, key: bytes, min_chunks: int = 1) -> bool | None:
        """Answer hit, miss, or not yet; a key heard of for the first time goes into the next batch."""
        if key in self._missed.get(request_id, ()):
            return False
        now = self._clock()
        prefix = self._prefixes.setdefault(request_id, _Prefix(self._batch_number))
        is_new = key not in prefix.keys
        prefix.keys[key] = None
        verdict = self._fresh(key, now)
        if verdict is None or (is_new and self._is_lost(verdict, now)):
            self._remember(key, _Verdict(now))
            self._unasked.append(key)
            return None
        if verdict.found:
            return self._ask_found(request_id, key, prefix, min_chunks)
        if verdict.found is None and now - verdict.since < self._deadline:
            return None
        if verdict.found is None:
            self._counters.add("lookup_expired")
        self.refuse(request_id, key)
        return False

    def refuse(self, request_id: str, key: bytes) -> None:
        """Make `key` a miss for this request, whatever L2 says later."""
        self._missed.setdefault(request_id, set()).add(key)

    def take_batch(self) -> list[bytes]:
        """Return the keys that nobody has asked L2 about yet."""
        self._batch_number += 1
        batch, self._unasked = self._unasked, []
        return batch

    def resolve(self, key: bytes, found: bool) -> None:
        """Note what L2 answered, what a load showed, or that a store succeeded."""
        self._remember(key, _Verdict(self._clock(), found))

    def is_known_present(self, key: bytes) -> bool:
        """Whether a fresh verdict says that L2 holds `key`."""
        verdict = self._fresh(key, self._clock())
        return verdict is not None and verdict.found is True

    def forget_request(self, request_id: str) -> None:
        """Drop what was kept for a request that ended."""
        self._missed.pop(request_id, None)
        self._prefixes.pop(request_id, None)

    def __len__(self) -> int:
        return len(self._verdicts)

    def _ask_found(self, request_id: str, key: bytes, prefix: _Prefix, min_chunks: int) -> bool | None:
        if not prefix.is_worth_it and min_chunks > 1:
            if prefix.begun_at_batch == self._batch_number:
                return None  # more of the prefix may follow
            num_found = self._num_found(request_id, prefix)
            if num_found is None:
                return None
            if num_found < min_chunks:
                self._counters.add("lookups_gated")
                self.refuse(request_id, key)
                return False
        prefix.is_worth_it = True
        return True

    def _num_found(self, request_id: str, prefix: _Prefix) -> int | None:
        """How many chunks of the prefix L2 holds, None while that is unknown."""
        now = self._clock()
        for number, key in enumerate(prefix.keys):
            verdict = self._fresh(key, now)
            if verdict is not None and verdict.found is None and now - verdict.since < self._deadline:
                return None
            if verdict is None or not verdict.found or key in self._missed.get(request_id, ()):
                return number
        return len(prefix.keys)

    def _fresh(self, key: bytes, now: float) -> _Verdict | None:
        verdict = self._verdicts.get(key)
        if verdict is None or verdict.found is None:
            return verdict
        age_limit = self._hit_seconds if verdict.found else self._miss_seconds
        return verdict if now - verdict.since < age_limit else None

    def _is_lost(self, verdict: _Verdict, now: float) -> bool:
        """Whether no answer will come, as when the process that asked has died: it has aged like a miss."""
        return verdict.found is None and now - verdict.since >= max(self._deadline, self._miss_seconds)

    def _remember(self, key: bytes, verdict: _Verdict) -> None:
        self._verdicts[key] = verdict
        self._verdicts.move_to_end(key)
        while len(self._verdicts) > self._capacity:
            self._verdicts.popitem(last=False)


class Prober:
    """A thread that asks L2 about batches of keys, in the order given; those that wait, all in one go.

    `probe` must not raise; it returns one answer per key. `on_answer` is called when there is one to take.
    """

    def __init__(
        self,
        probe: Callable[[Sequence[bytes]], Sequence[bool]],
        on_answer: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probe = probe
        self._on_answer = on_answer
        self._clock = clock
        self._batches: queue.SimpleQueue[tuple[float, list[bytes]] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[list[tuple[bytes, bool]]] = queue.SimpleQueue()
        self._seconds: deque[float] = deque()
        self._thread = threading.Thread(target=self._run, name="hypertier-lookup", daemon=True)
        self._thread.start()

    def submit(self, keys: list[bytes]) -> None:
        """Queue a batch; an empty one only wakes the connection up."""
        self._batches.put((self._clock(), keys))

    def take_answers(self) -> Iterable[tuple[bytes, bool]]:
        """Yield what was answered since the last call, without waiting."""
        while True:
            try:
                yield from self._answers.get_nowait()
            except queue.Empty:
                return

    def take_seconds(self) -> list[float]:
        """How long each batch answered since the last call has waited, empty ones not counted."""
        return [self._seconds.popleft() for _ in range(len(self._seconds))]

    def close(self, timeout_seconds: float) -> None:
        """End the thread after the batches it is at."""
        self._batches.put(None)
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while batches := self._take_batches():
            keys = [key for _, batch in batches for key in batch]
            answers = list(zip(keys, self._probe(keys), strict=True))
            now = self._clock()
            self._seconds += [now - since for since, batch in batches if batch]
            self._answers.put(answers)
            self._on_answer()

    def _take_batches(self) -> list[tuple[float, list[bytes]]]:
        """What is waiting, up to `MOST_KEYS` or one batch; nothing at the end. Waits until there is any."""
        batches: list[tuple[float, list[bytes]]] = []
        num_keys = 0
        with suppress(queue.Empty):
            while num_keys < MOST_KEYS:
                batch = self._batches.get(block=not batches)
                if batch is None:
                    if batches:
                        self._batches.put(None)
                    break
                batches.append(batch)
                num_keys += len(batch[1])
        return batches
