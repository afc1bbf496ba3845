"""HyperPod's managed tiered storage as L2: the daemon on the node, by HTTP, and its shared memory.

The daemon's protocol is known from two clients that speak it: LMCache's connector (pull request 1937) and its
L2 adapter (pull request 4138, read 2026-12-01). A value is written by PUT. It is read under a lease, which
tells where its pieces lie in a segment of shared memory, and pins them until it is released or expires.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from hypertier.errors import TierError, TierPartError, TierUnavailableError
from hypertier.tier.address import L2Address
from hypertier.tier.backends.backend import Buffer, Listener
from hypertier.tier.backends.daemon import Daemon, Lease
from hypertier.tier.backends.segment import Segment
from hypertier.tier.circuit import Circuit

LEASE_SECONDS = 30
SAFETY_SECONDS = 1.0  # a lease is not used this close to its end
MISS_WAIT_MS = 20  # how long the daemon may hold a question about a value that it lacks
MAX_LEASES = 4096
RELEASE_SECONDS = 0.5
WINDOW = 32  # questions under way at once


class HyperPodBackend:
    """Keeps values in the daemon on this node.

    The daemon has no time to live and does not replace values: `put` leaves an older one as it is, and the
    daemon evicts by itself. A lease taken by `exists_many` is kept for the `get_into` that follows.
    """

    replaces_values = False

    def __init__(
        self, address: L2Address, segment_path: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._daemon = Daemon(address)
        self._segment = Segment(segment_path)
        self._clock = clock
        self._lock = threading.Lock()
        self._releases = Circuit()
        self._leases: OrderedDict[bytes, Lease] = OrderedDict()

    def exists_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Take a lease on each value that there is, many at once; with no keys, only look for the segment.

        The first keys are asked about first; what there was no time for is a miss. The daemon holds each
        question about a value that it lacks: a long prompt that is new to it takes more time than there is.
        """
        if not keys:
            self._segment.identity()
            return []
        deadline = self._clock() + timeout_seconds
        found = {key: True for key in keys if self._held(key)}
        missing = iter([key for key in dict.fromkeys(keys) if key not in found])
        while window := list(islice(missing, WINDOW)):
            try:
                found |= self._ask(window, deadline)
            except TierPartError:
                if not found:
                    raise
            except TierUnavailableError:
                if not found or self._clock() < deadline:
                    raise
                break
        return [found.get(key, False) for key in keys]

    def get_into(
        self,
        key: bytes,
        buffers: Sequence[memoryview],
        ttl_seconds: int,
        timeout_seconds: float,
        listener: Listener | None = None,
    ) -> int | None:
        """Copy the value out of shared memory under a lease."""
        deadline = self._clock() + timeout_seconds
        lease = self._take(key) or self._lease(key, deadline)
        if lease is None:
            return None
        try:
            if lease.num_bytes != sum(map(len, buffers)):
                return lease.num_bytes
            tell = listener() if listener else None
            copied = self._segment.copy(lease.segment, lease.pieces, buffers, tell)
            return lease.num_bytes if copied and self._is_fresh(lease) else None
        finally:
            self._release([lease])

    def put(self, key: bytes, buffers: Sequence[Buffer], ttl_seconds: int, timeout_seconds: float) -> None:
        """Store the joined buffers, unless there is a value already."""
        self._daemon.put(key, buffers, timeout_seconds)

    def refresh_many(
        self, keys: Sequence[bytes], ttl_seconds: Sequence[int], timeout_seconds: float
    ) -> list[bool]:
        """Do nothing: the daemon knows no time to live."""
        return [True] * len(keys)

    def close(self) -> None:
        """Release the leases that are held, and give up."""
        with self._lock:
            leases = list(self._leases.values())
            self._leases.clear()
        self._release(leases)
        self._daemon.close()
        self._segment.close()

    def _ask(self, keys: Sequence[bytes], deadline: float) -> dict[bytes, bool]:
        segment = self._segment.identity()
        expires_at = self._clock() + LEASE_SECONDS - SAFETY_SECONDS
        asked = self._daemon.lease_many(keys, MISS_WAIT_MS, LEASE_SECONDS, deadline - self._clock())
        leases = {key: lease for key, lease in zip(keys, asked, strict=True) if isinstance(lease, Lease)}
        self._keep({key: lease.held(segment, expires_at) for key, lease in leases.items()})
        errors = [each for each in asked if isinstance(each, TierError)]
        if len(errors) == len(asked):
            raise errors[0]
        return {key: key in leases for key in keys}

    def _lease(self, key: bytes, deadline: float) -> Lease | None:
        self._ask([key], deadline)
        return self._take(key)

    def _keep(self, fresh: Mapping[bytes, Lease]) -> None:
        with self._lock:
            surplus = [self._leases.pop(key) for key in fresh if key in self._leases]
            self._leases.update(fresh)
            while len(self._leases) > MAX_LEASES:
                surplus.append(self._leases.popitem(last=False)[1])
        self._release(surplus)

    def _release(self, leases: Iterable[Lease]) -> None:
        """Give leases back, while the daemon takes them; those that it does not take expire by themselves.

        A load waits for this: a daemon that hangs here is left alone for a while.
        """
        for lease in leases:
            if not self._releases.admits():
                return
            try:
                self._daemon.release(lease, RELEASE_SECONDS)
            except TierError:
                self._releases.failed()
            else:
                self._releases.succeeded()

    def _held(self, key: bytes) -> bool:
        with self._lock:
            lease = self._leases.get(key)
        return lease is not None and self._is_fresh(lease)

    def _take(self, key: bytes) -> Lease | None:
        with self._lock:
            lease = self._leases.pop(key, None)
        return lease if lease is not None and self._is_fresh(lease) else None

    def _is_fresh(self, lease: Lease) -> bool:
        return self._clock() < lease.expires_at and lease.segment == self._segment.identity()
