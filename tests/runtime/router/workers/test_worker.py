"""What a worker makes of what its supervisor says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from fakes_engine import run_loop

from hypertier.router.workers.worker import _until_told


class RouterWithoutFiles:
    """As a router at its limit of open files."""

    def __init__(self) -> None:
        self.on_failure: Any = None

    async def cover(self, slots: Mapping[int, Any]) -> None:
        raise OSError(24, "Too many open files")


class Saying:
    """A channel on which a supervisor says these."""

    def __init__(self, *said: dict[str, Any]) -> None:
        self._said = said

    async def heard(self) -> AsyncIterator[dict[str, Any]]:
        for one in self._said:
            yield one


def test_worker_that_cannot_stand_in_for_another_still_does_what_it_is_told_next() -> None:
    said = Saying({"do": "cover", "slots": [0]}, {"do": "leave"})

    is_replaced = run_loop(_until_told(RouterWithoutFiles(), said, [[], []]))  # type: ignore[arg-type]

    assert is_replaced
