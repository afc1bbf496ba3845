"""The one place where a foreign error becomes a miss."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypertier.errors import TierPartError
from hypertier.tier.circuit import Circuit
from hypertier.tier.metrics import Counters

T = TypeVar("T")


class Guard:
    """Runs calls on L2 behind a circuit. Whatever goes wrong is counted and answered by a default.

    `on_change` is told once when L2 stops answering, with the error, and once when it answers again, with
    None.
    """

    def __init__(
        self,
        name: str,
        circuit: Circuit,
        counters: Counters,
        on_change: Callable[[str, Exception | None], None],
    ) -> None:
        self._name = name
        self._counters = counters
        self._on_change = on_change
        self.circuit = circuit

    def call(self, function: Callable[[], T], default: T) -> T:
        """Return what `function` returns, or `default` when it raises or the circuit is open."""
        if not self.circuit.admits():
            self._counters.add("circuit_open")
            return default
        try:
            result = function()
        except TierPartError:
            self._counters.add(f"{self._name}_errors")
            self.circuit.abstained()
            return default
        except Exception as error:  # the boundary: nothing that L2 does may reach the engine
            self._counters.add(f"{self._name}_errors")
            if self.circuit.failed():
                self._on_change(self._name, error)
            return default
        if self.circuit.succeeded():
            self._on_change(self._name, None)
        return result
