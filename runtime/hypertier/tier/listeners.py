"""How a tier comes to hear what vLLM tells its connector alone: it asks while that is being built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Listener(Protocol):
    """A tier that wants to know."""

    def note_request(self, request_id: str, salt: str | None) -> None:
        """A request arrives, with this `cache_salt`."""
        ...

    def note_held(self, request_id: str, block_hashes: list[bytes], num_tokens: int) -> None:
        """Blocks up to `num_tokens` of a request are on the GPU or in L1; the hashes are of its blocks."""
        ...


_listeners: ContextVar[list[Listener] | None] = ContextVar("hypertier_listeners", default=None)


def listen(listener: Listener) -> bool:
    """Have the connector that is being built tell `listener`; returns whether there is one of ours."""
    listeners = _listeners.get()
    if listeners is None:
        return False
    listeners.append(listener)
    return True


@contextmanager
def building() -> Iterator[list[Listener]]:
    """Collect the tiers that are built meanwhile."""
    listeners: list[Listener] = []
    token = _listeners.set(listeners)
    try:
        yield listeners
    finally:
        _listeners.reset(token)
