"""Chunks as entries of a backend: how they are named, cut into stripes, written and proven.

A chunk's stripes are separate values, so none is large and a cluster spreads them. Stripe 0 carries the
header and is written last: a chunk is stored when its stripe 0 is, and one that was half written or half
evicted does not verify.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from hypertier.errors import TierPartError
from hypertier.tier.backends.backend import Backend, Buffer
from hypertier.tier.cipher import OVERHEAD_BYTES, ChunkCipher
from hypertier.tier.entry import HEADER_BYTES, Flaw, PartsChecksum, header_flaw, payload_flaw, seal
from hypertier.tier.names import entry_name, facts_name, ledger_name
from hypertier.tier.settings import STRIPE_BYTES
from hypertier.tier.tenants import Tenants

SPOILT_SECONDS = 300.0
MOST_SPOILT = 4096
_PAGE_BYTES = 4096


class Loaded(Enum):
    """The good outcome of a load, and the usual bad one."""

    WHOLE = "whole"
    ABSENT = "absent"


def stripe_sizes(num_bytes: int, stripe_bytes: int = STRIPE_BYTES) -> tuple[int, ...]:
    """Cut a chunk into nearly equal pieces, each with room for a header within `stripe_bytes`."""
    num_stripes = -(-num_bytes // (stripe_bytes - HEADER_BYTES)) or 1
    size = -(-num_bytes // num_stripes)
    if num_stripes > 1:
        size = min(-(-size // _PAGE_BYTES) * _PAGE_BYTES, stripe_bytes - HEADER_BYTES)
    sizes: list[int] = []
    while num_bytes > size:
        sizes.append(size)
        num_bytes -= size
    return (*sizes, num_bytes)


class NamespaceSource(Protocol):
    """Tells the namespace of an engine, as `hypertier.tier.namespace.Namespace` does."""

    def prepare(self) -> None:
        """Do ahead what takes a while."""
        ...

    def digest(self) -> bytes:
        """Return 16 bytes."""
        ...

    def describe(self) -> bytes:
        """Return what was digested, as JSON."""
        ...


class Spoilt:
    """Chunks in whose place lies something else, for a while: where values are not replaced, to load them is
    in vain, and so is to store them again. Used by several threads.

    It takes two loads to show it: one alone may have met a value that was just being moved.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._shown_at: OrderedDict[bytes, tuple[float, float]] = OrderedDict()  # the last two times

    def add(self, key: bytes) -> None:
        """A load has shown it."""
        with self._lock:
            _, last = self._shown_at.get(key, (-math.inf, -math.inf))
            self._shown_at[key] = last, self._clock()
            self._shown_at.move_to_end(key)
            if len(self._shown_at) > MOST_SPOILT:
                self._shown_at.popitem(last=False)

    def __contains__(self, key: bytes) -> bool:
        shown_at = self._shown_at.get(key)
        return shown_at is not None and self._clock() - shown_at[0] < SPOILT_SECONDS


class Entries:
    """The chunks of one namespace in a backend. Errors of the backend pass through.

    A chunk's key begins with its tenant's tag. It lives `ttl_seconds`, or what the tenant's terms say.
    The namespace's digest is asked for at each call, so an engine need not know it before it serves.
    """

    def __init__(
        self,
        backend: Backend,
        namespace: NamespaceSource,
        *,
        chunk_bytes: int,
        ttl_seconds: int,
        lookup_timeout_seconds: float,
        io_timeout_seconds: float,
        stripe_bytes: int = STRIPE_BYTES,
        clock: Callable[[], float] = time.monotonic,
        cipher: ChunkCipher | None = None,
        tenants: Tenants | None = None,
    ) -> None:
        self._tenants = tenants or Tenants()
        self._backend = backend
        self._namespace = namespace
        self._cipher = cipher
        self._chunk_bytes = chunk_bytes
        self._stored_bytes = chunk_bytes + (OVERHEAD_BYTES if cipher else 0)
        self._sizes = stripe_sizes(self._stored_bytes, stripe_bytes)
        self._ttl_seconds = ttl_seconds
        self._lookup_timeout_seconds = lookup_timeout_seconds
        self._io_timeout_seconds = io_timeout_seconds
        self._clock = clock
        self._spoilt = Spoilt(clock)
        self._describe_at = float("-inf")
        self._buffers = threading.local()

    @property
    def chunk_bytes(self) -> int:
        """How long a chunk is, without its header."""
        return self._chunk_bytes

    @property
    def entry_bytes(self) -> int:
        """How long the values of a chunk are together."""
        return HEADER_BYTES + self._stored_bytes

    def ttl_seconds(self, key: bytes) -> int:
        """How long a chunk lives after it was last used."""
        return self._tenants.terms(key).ttl_seconds or self._ttl_seconds

    def names(self, key: bytes) -> list[bytes]:
        """What the stripes of a chunk are called, the proving one first."""
        namespace = self._namespace.digest()
        return [entry_name(namespace, key, stripe) for stripe in range(len(self._sizes))]

    def ledger_name(self, tenant: bytes) -> bytes:
        """Where it is written which chunks a tenant keeps."""
        return ledger_name(self._namespace.digest(), tenant)

    def warm_up(self) -> None:
        """Find out the slow part of the namespace, and connect."""
        self._namespace.prepare()
        self._backend.exists_many((), self._io_timeout_seconds)

    def close(self) -> None:
        """Break off all connections; what waits for an answer fails at once."""
        self._backend.close()

    def exist(self, keys: Sequence[bytes]) -> list[bool]:
        """Tell for each chunk whether all of its stripes are stored. One round trip.

        All, because one on a server that does not answer would hold up the load.
        """
        namespace = self._namespace.digest()
        count = len(self._sizes)
        asked = [key for key in keys if key not in self._spoilt]
        names = [entry_name(namespace, key, stripe) for key in asked for stripe in range(count)]
        found = self._backend.exists_many(names, self._lookup_timeout_seconds)
        whole = {
            key: all(found[at : at + count])
            for key, at in zip(asked, range(0, len(names), count), strict=True)
        }
        return [whole.get(key, False) for key in keys]

    def refresh(self, keys: Sequence[bytes]) -> list[bool]:
        """Let chunks live anew; tells for each whether all of it is there. One round trip."""
        names = [name for key in keys for name in self.names(key)]
        count = len(self._sizes)
        lives = [ttl for key in keys for ttl in [self.ttl_seconds(key)] * count]
        found = self._backend.refresh_many(names, lives, self._io_timeout_seconds)
        return [all(found[first : first + count]) for first in range(0, len(names), count)]

    def load(self, key: bytes, slot: memoryview, seconds: float = math.inf) -> Loaded | Flaw:
        """Receive a chunk straight into `slot`, `chunk_bytes` long; its time to live begins anew.

        Only after `Loaded.WHOLE` does it hold the chunk. `seconds` bound the whole chunk, if there are fewer
        than each of its stripes may take.
        """
        outcome = self._load(key, slot, self._clock() + seconds)
        if isinstance(outcome, Flaw) and not self._backend.replaces_values:
            self._spoilt.add(key)
        return outcome

    def _load(self, key: bytes, slot: memoryview, deadline: float) -> Loaded | Flaw:
        namespace = self._namespace.digest()
        if self._cipher is None:
            return self._receive(namespace, key, slot, deadline)
        stored = self._own_buffer()
        outcome = self._receive(namespace, key, stored, deadline)
        if outcome is Loaded.WHOLE and not self._cipher.decrypt_into(namespace, key, stored, slot):
            return Flaw.PAYLOAD
        return outcome

    def _own_buffer(self) -> memoryview:
        """Room for an encrypted chunk, of this thread: to have the kernel clear new pages takes a while."""
        if not hasattr(self._buffers, "own"):
            self._buffers.own = memoryview(bytearray(self._stored_bytes))
        own: memoryview = self._buffers.own
        return own

    def _receive(self, namespace: bytes, key: bytes, target: memoryview, deadline: float) -> Loaded | Flaw:
        header = bytearray(HEADER_BYTES)
        ttl_seconds = self.ttl_seconds(key)
        checksum = PartsChecksum(header)
        listener = checksum.begin if self._cipher is None else None
        offset = 0
        for stripe, size in enumerate(self._sizes):
            buffers = [target[offset : offset + size]]
            if stripe == 0:
                buffers.insert(0, memoryview(header))
            timeout = min(self._io_timeout_seconds, deadline - self._clock())
            name = entry_name(namespace, key, stripe)
            length = self._backend.get_into(name, buffers, ttl_seconds, timeout, listener)
            if length is None:
                return Loaded.ABSENT
            if length != sum(map(len, buffers)):
                return Flaw.LENGTH
            if stripe == 0:
                flaw = header_flaw(bytes(header), namespace, key, self._stored_bytes, len(self._sizes))
                if flaw:
                    return flaw
            offset += size
            checksum.end()
        if self._cipher is not None:
            return Loaded.WHOLE  # and has yet to prove itself
        return payload_flaw(bytes(header), checksum.value) or Loaded.WHOLE

    def store(self, key: bytes, slot: memoryview) -> None:
        """Write a chunk, the proving stripe last; and, now and then, what its namespace stands for.

        Raises:
            TierPartError: something else lies in its place, and is not replaced.
        """
        if key in self._spoilt:
            raise TierPartError("something else lies in the place of a chunk, and L2 replaces no values")
        namespace = self._namespace.digest()
        payload = slot
        if self._cipher is not None:
            payload = self._own_buffer()
            self._cipher.encrypt_into(namespace, key, slot, payload)
        is_encrypted = self._cipher is not None
        header = seal(namespace, key, payload, len(self._sizes), is_encrypted=is_encrypted)
        ttl_seconds = self.ttl_seconds(key)
        end = self._stored_bytes
        for stripe in reversed(range(len(self._sizes))):
            start = end - self._sizes[stripe]
            buffers: list[Buffer] = [payload[start:end]]
            if stripe == 0:
                buffers.insert(0, header)
            self._backend.put(
                entry_name(namespace, key, stripe), buffers, ttl_seconds, self._io_timeout_seconds
            )
            end = start
        if self._clock() >= self._describe_at:
            self._describe_at = self._clock() + self._ttl_seconds / 2
            facts = [self._namespace.describe()]
            self._backend.put(facts_name(namespace), facts, self._ttl_seconds, self._io_timeout_seconds)
