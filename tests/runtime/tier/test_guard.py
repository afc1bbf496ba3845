"""Whatever L2 does wrong becomes a counted default."""

from __future__ import annotations

import pytest
from fakes_tier import FakeClock

from hypertier.errors import TierPartError, TierProtocolError, TierUnavailableError
from hypertier.tier.circuit import Circuit
from hypertier.tier.guard import Guard
from hypertier.tier.metrics import Counters


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.counters = Counters()
        self.changes: list[str] = []
        circuit = Circuit(self.clock, lambda: 0.0, first_pause_seconds=1)
        self.guard = Guard("read", circuit, self.counters, self.note)

    def note(self, what: str, error: Exception | None) -> None:
        self.changes.append(f"{what}: {error}")


def test_a_result_passes_through() -> None:
    world = World()

    assert world.guard.call(lambda: 7, 0) == 7
    assert world.changes == []


@pytest.mark.parametrize(
    "error",
    [TierUnavailableError("gone"), TierProtocolError("nonsense"), OSError("broken"), KeyError("bug")],
    ids=lambda error: type(error).__name__,
)
def test_any_error_is_counted_and_answered_by_the_default(error: Exception) -> None:
    world = World()

    def fail() -> int:
        raise error

    assert world.guard.call(fail, 5) == 5
    assert world.counters.total("read_errors") == 1
    assert world.changes == [f"read: {error}"]


def test_a_part_that_fails_is_counted_and_the_rest_is_asked_on() -> None:
    world = World()

    def fail() -> int:
        raise TierPartError("one of eight")

    answers = [world.guard.call(fail, 5), world.guard.call(lambda: 7, 5)]

    assert answers == [5, 7]
    assert world.counters.total("read_errors") == 1
    assert world.changes == []


def test_a_part_that_fails_leaves_an_open_circuit_open_for_the_next_attempt() -> None:
    world = World()

    def fail(error: Exception) -> int:
        raise error

    world.guard.call(lambda: fail(TierUnavailableError("gone")), 0)
    world.clock.advance(1)
    world.guard.call(lambda: fail(TierPartError("one of eight")), 0)

    assert not world.guard.circuit.is_closed
    assert world.guard.call(lambda: 7, 0) == 7


def test_while_open_nothing_is_called_and_changes_are_told_once() -> None:
    world = World()
    calls = []

    def fail() -> int:
        calls.append(1)
        raise TierUnavailableError("gone")

    for _ in range(5):
        world.guard.call(fail, 0)
    world.clock.advance(1)
    world.guard.call(lambda: 1, 0)

    assert len(calls) == 1
    assert world.counters.total("circuit_open") == 4
    assert world.changes == ["read: gone", "read: None"]
