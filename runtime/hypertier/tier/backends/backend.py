"""What a store must do to serve as L2: four calls on keys and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Backend(Protocol):
    """A key-value store for values of up to a few MiB. Called by several threads at once.

    Every call ends within `timeout_seconds`, connecting included, or raises `TierUnavailableError`. An answer
    that makes no sense raises `TierProtocolError`. When a call has returned or raised, nothing writes into
    its buffers any more.
    """

    def exists_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Tell for each key whether a value is stored under it, in one round trip."""
        ...

    def get_into(
        self, key: bytes, buffers: Sequence[memoryview], ttl_seconds: int, timeout_seconds: float
    ) -> int | None:
        """Receive the value of `key` into `buffers`, one after the other, and let it live `ttl_seconds` anew.

        Returns:
            The value's length in bytes, None when there is no value. The buffers hold the value if and only
            if its length is the sum of theirs; otherwise what they hold is undefined.
        """
        ...

    def put(self, key: bytes, buffers: Sequence[Buffer], ttl_seconds: int, timeout_seconds: float) -> None:
        """Store the joined `buffers` under `key`, over an older value, for `ttl_seconds`."""
        ...

    def close(self) -> None:
        """Give up all connections; calls that wait for an answer raise `TierUnavailableError` at once."""
        ...
