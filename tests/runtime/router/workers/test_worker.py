"""What a worker makes of what its supervisor says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from fakes_engine import run_loop

from hypertier.router.workers.worker import Told, _listen


class RouterWithoutFiles:
    """As a router at its limit of open files."""

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

    async def act() -> bool:
        told = Told()
        await _listen(said, told, RouterWithoutFiles(), [[], []])  # type: ignore[arg-type]
        return await told.to_end

    assert run_loop(act())


def test_worker_that_ends_may_still_be_told_to_hurry() -> None:
    said = Saying({"do": "drain"}, {"do": "hurry"})

    async def act() -> tuple[bool, bool]:
        told = Told()
        await _listen(said, told, RouterWithoutFiles(), [[], []])  # type: ignore[arg-type]
        return await told.to_end, told.hurry.is_set()

    assert run_loop(act()) == (False, True)
