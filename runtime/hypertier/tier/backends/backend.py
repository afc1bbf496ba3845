"""What a store must do to serve as L2: calls on keys and bytes; and, to hold tenants to quotas, a ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview
# Told of each part of a value as it has come, in order; made anew for each attempt to receive the value.
Listener = Callable[[], Callable[[memoryview], None]]


class Backend(Protocol):
    """A key-value store for values of up to a few MiB. Called by several threads at once.

    Every call ends within `timeout_seconds`, connecting included, or raises `TierUnavailableError`. An answer
    that makes no sense raises `TierProtocolError`. When a call has returned or raised, nothing writes into
    its buffers any more.
    """

    replaces_values: bool  # whether `put` takes the place of what is there

    def exists_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Tell for each key whether a value is stored under it, in one round trip."""
        ...

    def get_into(
        self,
        key: bytes,
        buffers: Sequence[memoryview],
        ttl_seconds: int,
        timeout_seconds: float,
        listener: Listener | None = None,
    ) -> int | None:
        """Receive the value of `key` into `buffers`, one after the other, and let it live `ttl_seconds` anew.

        `listener` is told of a value that fits, in parts that a CPU still has in its cache.

        Returns:
            The value's length in bytes, None when there is no value. The buffers hold the value if and only
            if its length is the sum of theirs; otherwise what they hold is undefined.
        """
        ...

    def put(self, key: bytes, buffers: Sequence[Buffer], ttl_seconds: int, timeout_seconds: float) -> None:
        """Store the joined `buffers` under `key`, over an older value where values are replaced, for
        `ttl_seconds`.
        """
        ...

    def refresh_many(
        self, keys: Sequence[bytes], ttl_seconds: Sequence[int], timeout_seconds: float
    ) -> list[bool]:
        """Let each key's value live anew for its `ttl_seconds`, in one round trip; tells whether it is there.

        A store without times to live does nothing and says yes.
        """
        ...

    def close(self) -> None:
        """Give up all connections; calls that wait for an answer raise `TierUnavailableError` at once."""
        ...


class Ledger(Protocol):
    """Who keeps what, shared by all engines: under each name, members by the time of their last use.

    Raises `TierUnavailableError` and `TierProtocolError` as a `Backend` does. Every call may be repeated.
    """

    def note(
        self,
        name: bytes,
        used_at: Mapping[bytes, float],
        forget_before: float,
        ttl_seconds: int,
        timeout_seconds: float,
    ) -> int:
        """Write when members were used, drop those last used before `forget_before`, and count what is left.

        The ledger lives `ttl_seconds` after its last note.
        """
        ...

    def surplus(self, name: bytes, keep: int, count: int, timeout_seconds: float) -> list[bytes]:
        """Members beyond the `keep` most recently used, the longest unused first.

        `count` is how many there are, as far as known; some are returned where they are many.
        """
        ...

    def forget(self, name: bytes, members: Sequence[bytes], timeout_seconds: float) -> None:
        """Drop members."""
        ...

    def remove_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Remove the values of keys, in one round trip; tells whether they were there."""
        ...
