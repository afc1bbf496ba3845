"""How a tier comes to hear what vLLM tells its connector alone: it asks while that is being built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol


class Listener(Protocol):
    """A tier that wants to know."""

    def note_request(self, request_id: str, salt: str | None) -> None:
        """A request arrives, with this `cache_salt`."""
        ...

    def note_transfer(self, request_id: str, is_due: bool) -> None:
        """Whether another engine has prefilled a request and is to hand over what it has."""
        ...

    def note_held(self, request_id: str, block_hashes: list[bytes], num_tokens: int) -> None:
        """Blocks up to `num_tokens` of a request are on the GPU or in L1; the hashes are of its blocks."""
        ...


@dataclass
class Building:
    """A connector that is being built: the engine's configuration, and the tiers that want to be told."""

    engine_config: Any
    listeners: list[Listener] = field(default_factory=list)


_building: ContextVar[Building | None] = ContextVar("hypertier_building", default=None)


def listen(listener: Listener) -> Building | None:
    """Have the connector that is being built tell `listener`; returns None where it is none of ours."""
    under_way = _building.get()
    if under_way is not None:
        under_way.listeners.append(listener)
    return under_way


@contextmanager
def building(engine_config: Any) -> Iterator[list[Listener]]:
    """Collect the tiers that are built meanwhile."""
    under_way = Building(engine_config)
    token = _building.set(under_way)
    try:
        yield under_way.listeners
    finally:
        _building.reset(token)
