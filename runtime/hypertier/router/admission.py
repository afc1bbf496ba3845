"""The one step between a request that came whole and its way to a replica.

Where a router has an `Admission`, every request that is for a replica passes it, before anything is read of
its body; without one, there is no such step and it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hypertier.router.api.openai import InferenceRequest, Refusal
from hypertier.router.http.heads import Request
from hypertier.router.replicas.replicas import Replica


class Slot(Protocol):
    """Room on the engines, which a request has from when it is let through until it ended."""

    def leave(self) -> None:
        """It waits for a replica to come, and others may have the room; a second time changes nothing."""
        ...

    def sent(self, replica: Replica) -> None:
        """Its room is on this replica, until it is sent to another."""
        ...


class Grant:
    """What a request was let through with. `released` is called once, when it ended, however it did.

    Prompts share cache with those of the same `seed` alone. `session` is its session, whatever the request
    says; `headers` are lines of the answer's head. `answered` is called with the last bytes of an answer that
    came whole. `waited_seconds` are gone of the time that the client gives. Where requests queue for engines
    it has a `slot`.
    """

    __slots__ = ("answered", "headers", "released", "seed", "session", "slot", "tenant", "waited_seconds")

    def __init__(
        self,
        tenant: str = "",
        seed: bytes = b"",
        session: bytes | None = None,
        headers: bytes = b"",
        released: Callable[[], None] | None = None,
        answered: Callable[[bytes], None] | None = None,
        slot: Slot | None = None,
    ) -> None:
        self.tenant = tenant
        self.seed = seed
        self.session = session
        self.headers = headers
        self.released = released
        self.answered = answered
        self.slot = slot
        self.waited_seconds = 0.0

    def end(self) -> None:
        """The request ended, however it did."""
        if self.released is not None:
            self.released()


class Admission(Protocol):
    """Decides about every request for a replica."""

    def admit(self, arrival: Arrival) -> None:
        """Call the arrival's `proceed` or `refuse`, now or later.

        What is in `arrival.request` goes to the engine: header lines may be added to `forwarded` or taken
        from it, and `body` be another; `fields` stay what the client sent.
        """
        ...


class HeadCheck(Protocol):
    """An `Admission` may also look at the head of a request that has a long body, before that is read."""

    def check_head(self, request: Request) -> Refusal | None:
        """What to answer at once, which ends the connection; None to read on."""
        ...


class Gate(Protocol):
    """Where an arrival goes on."""

    def proceed(self, arrival: Arrival, grant: Grant | None) -> None:
        """To a replica."""
        ...

    def refuse(self, arrival: Arrival, refusal: Refusal) -> None:
        """Back to the client."""
        ...


class Admitted:
    """A request that was let through: what it asks for, by which name it is told of, and what it holds."""

    __slots__ = ("grant", "inference", "request", "request_id")

    def __init__(
        self, request: Request, inference: InferenceRequest, request_id: bytes, grant: Grant | None = None
    ) -> None:
        self.request = request
        self.inference = inference
        self.request_id = request_id
        self.grant = grant


class Arrival:
    """One request before it is let through: it is to `proceed`, or to be `refuse`d, once.

    While it waits, the client may go away: then it is `gone`, `on_gone` is called, and nothing more comes of
    it. Where it waited for as long as an engine may be silent, `on_late` says what to answer, where given.
    """

    __slots__ = (
        "_gate",
        "client",
        "ends_with_connection",
        "gone",
        "last_tick",
        "on_gone",
        "on_late",
        "request",
        "request_id",
    )

    def __init__(self, gate: Gate, client: object, request: Request, request_id: bytes) -> None:
        self.request = request
        self.request_id = request_id
        self.client = client
        self.gone = False
        self.on_gone: Callable[[], None] | None = None
        self.on_late: Callable[[], Refusal] | None = None
        self.last_tick = -1
        self.ends_with_connection = False
        self._gate = gate

    def proceed(self, grant: Grant | None = None) -> None:
        """Let it through."""
        if not self.gone:
            self.gone = True
            self._gate.proceed(self, grant)

    def refuse(self, refusal: Refusal) -> None:
        """Answer this; the connection lives on."""
        if not self.gone:
            self.gone = True
            self._gate.refuse(self, refusal)

    # The client's connection sees it as the request on its way, see `connection.Pending`.

    def cancel(self) -> None:
        """The client went away."""
        if not self.gone:
            self.gone = True
            if self.on_gone is not None:
                self.on_gone()

    def time_out(self) -> None:
        """It waited for as long as an engine may be silent."""
        if not self.gone:
            self._gate.refuse(self, self.leave_late())

    def leave_late(self) -> Refusal:
        """It waits no more, and gets this."""
        self.gone = True
        if self.on_late is not None:
            return self.on_late()
        if self.on_gone is not None:
            self.on_gone()
        return Refusal(503, "the request waited too long", "overloaded", retry_after_seconds=1)

    def pause(self) -> None:
        """Nothing is written yet."""

    def resume(self) -> None:
        """Nothing is written yet."""
