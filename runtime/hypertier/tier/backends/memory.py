"""A backend in this process's memory: for tests, with faults on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from hypertier.errors import TierUnavailableError
from hypertier.tier.backends.backend import Buffer, Listener


class MemoryBackend:
    """Keeps values in a dict. `values` may be read and spoiled by a test.

    While `error` is set, every call raises it. While `gate` is cleared, every call waits for it and, like a
    frozen server, raises `TierUnavailableError` when its time is over; with `held`, only gets of these keys.
    """

    replaces_values = True

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.values: dict[bytes, bytes] = {}
        self.ledgers: dict[bytes, dict[bytes, float]] = {}
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.held: set[bytes] = set()
        self.num_calls = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._expires_at: dict[bytes, float] = {}
        self._closed = False

    def exists_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Tell for each key whether it has a value that has not expired."""
        self._enter(timeout_seconds)
        with self._lock:
            return [self._value(key) is not None for key in keys]

    def get_into(
        self,
        key: bytes,
        buffers: Sequence[memoryview],
        ttl_seconds: int,
        timeout_seconds: float,
        listener: Listener | None = None,
    ) -> int | None:
        """Copy the value into `buffers` as far as it goes and return its length."""
        self._enter(timeout_seconds, key)
        with self._lock:
            value = self._value(key)
            if value is None:
                return None
            self._expires_at[key] = self._clock() + ttl_seconds
        tell = listener() if listener and len(value) == sum(map(len, buffers)) else None
        offset = 0
        for buffer in buffers:
            piece = value[offset : offset + len(buffer)]
            buffer[: len(piece)] = piece
            offset += len(buffer)
            if tell:
                tell(buffer)
        return len(value)

    def put(self, key: bytes, buffers: Sequence[Buffer], ttl_seconds: int, timeout_seconds: float) -> None:
        """Store a copy of the joined buffers."""
        self._enter(timeout_seconds)
        value = b"".join(buffers)
        with self._lock:
            self.values[key] = value
            self._expires_at[key] = self._clock() + ttl_seconds

    def refresh_many(
        self, keys: Sequence[bytes], ttl_seconds: Sequence[int], timeout_seconds: float
    ) -> list[bool]:
        """Move the end of each value that has not expired."""
        self._enter(timeout_seconds)
        with self._lock:
            found = [self._value(key) is not None for key in keys]
            for key, ttl, is_there in zip(keys, ttl_seconds, found, strict=True):
                if is_there:
                    self._expires_at[key] = self._clock() + ttl
        return found

    def remove_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Remove values."""
        self._enter(timeout_seconds)
        with self._lock:
            return [self.values.pop(key, None) is not None for key in keys]

    def note(
        self,
        name: bytes,
        used_at: Mapping[bytes, float],
        forget_before: float,
        ttl_seconds: int,
        timeout_seconds: float,
    ) -> int:
        """Keep a ledger in a dict."""
        self._enter(timeout_seconds)
        with self._lock:
            kept = {**self.ledgers.get(name, {}), **used_at}
            self.ledgers[name] = {member: at for member, at in kept.items() if at >= forget_before}
            return len(self.ledgers[name])

    def surplus(self, name: bytes, keep: int, count: int, timeout_seconds: float) -> list[bytes]:
        """Look through the dict."""
        self._enter(timeout_seconds)
        with self._lock:
            ledger = self.ledgers.get(name, {})
            by_age = sorted(ledger, key=lambda member: (ledger[member], member))
            return by_age[: max(0, len(by_age) - keep)]

    def forget(self, name: bytes, members: Sequence[bytes], timeout_seconds: float) -> None:
        """Drop from the dict."""
        self._enter(timeout_seconds)
        with self._lock:
            for member in members:
                self.ledgers.get(name, {}).pop(member, None)

    def close(self) -> None:
        """Let waiting calls go; every call raises from now on."""
        self._closed = True
        self.gate.set()

    def reopen(self) -> None:
        """Take calls again, with what is stored, as a server does for another engine."""
        self._closed = False

    def _enter(self, timeout_seconds: float, key: bytes = b"") -> None:
        self.num_calls += 1
        if (not self.held or key in self.held) and not self.gate.wait(timeout_seconds):
            raise TierUnavailableError(f"no answer within {timeout_seconds} seconds")
        if self._closed:
            raise TierUnavailableError("the backend is closed")
        if self.error is not None:
            raise self.error

    def _value(self, key: bytes) -> bytes | None:
        if self._clock() >= self._expires_at.get(key, float("inf")):
            self.values.pop(key, None)
            del self._expires_at[key]
        return self.values.get(key)
