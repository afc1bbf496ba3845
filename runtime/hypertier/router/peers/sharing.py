"""A strategy that knows what the routers beside this one have sent, and tells them what it sends itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import count
from typing import cast

from hypertier.errors import PeerError
from hypertier.router.api.openai import InferenceRequest
from hypertier.router.peers import news
from hypertier.router.peers.news import Alive, Answered, Finished, FirstToken, News, Sent
from hypertier.router.replicas.replicas import Replica, ReplicaSet, State
from hypertier.router.strategies.strategy import Choice, Strategy
from hypertier.router.telemetry.metrics import PeerCounts

REQUEST_BYTES = 1024
"""Memory of a request of another router's in flight, what the strategies know of it included."""
MAX_IN_FLIGHT = 65536
"""Requests in flight that one other router may have: 64 MiB."""
MAX_HEARD_BYTES = 256 * 2**20
"""Memory of all that others have in flight: so many routers can't be believed to have more."""

_NOTHING: dict[int, object] = {}


class _Own:
    """A request of this router's in flight: what was told of it, and whether its answer began.

    That of an answer in one piece is told with its end.
    """

    __slots__ = ("begun", "message", "number", "streamed")

    def __init__(self, number: int, message: bytes, streamed: bool) -> None:
        self.number = number
        self.message = message
        self.streamed = streamed
        self.begun = False

    def so_far(self) -> bytes:
        """What another router must hear of it now."""
        return self.message + news.first_token_message(self.number) if self.begun else self.message


class Shared(Strategy):
    """Passes all on to `strategy`: own requests, which it `tell`s others of, and what others tell.

    A request of another router counts until that says that it finished, or is no longer heard. Where nobody
    is heard, the strategy knows what it would know alone. `numbers` are those of requests, unique among all
    that is told.
    """

    def __init__(
        self,
        strategy: Strategy,
        replicas: ReplicaSet,
        *,
        tell: Callable[[bytes], None],
        counts: PeerCounts,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self._strategy = strategy
        self._replicas = replicas
        self._tell = tell
        self._counts = counts
        self._numbers = count(1) if numbers is None else numbers
        self._own: dict[Hashable, _Own] = {}
        self._named: dict[bytes, Replica] = {}
        self._heard: dict[Hashable, dict[int, object]] = {}  # tickets by the number of the other's request
        replicas.at_end(self._ended)

    @property
    def name(self) -> str:
        """The strategy's."""
        return self._strategy.name

    @property
    def index_bytes(self) -> int:
        """Memory that the strategy's index takes."""
        return self._strategy.index_bytes

    def choose(self, request: InferenceRequest, candidates: Sequence[Replica], now: float) -> Choice:
        """The strategy's choice."""
        return self._strategy.choose(request, candidates, now)

    def sent(self, ticket: Hashable, request: InferenceRequest, choice: Choice, now: float) -> None:
        """An own request goes there."""
        self._strategy.sent(ticket, request, choice, now)
        number = next(self._numbers)
        message = news.sent_message(
            number,
            choice.replica.name,
            request.num_bytes,
            min(choice.matched_bytes, request.num_bytes),
            request.streamed,
            request.block_hashes,
        )
        self._own[ticket] = _Own(number, message, request.streamed)
        self._tell(message)

    def first_token(self, ticket: Hashable, now: float) -> None:
        """The answer to an own request began."""
        self._strategy.first_token(ticket, now)
        own = self._own.get(ticket)
        if own is not None:
            own.begun = True
            if own.streamed:
                self._tell(news.first_token_message(own.number))

    def finished(self, ticket: Hashable, now: float) -> None:
        """An own request ended."""
        self._strategy.finished(ticket, now)
        own = self._own.pop(ticket, None)
        if own is None:
            return
        if own.begun and not own.streamed:
            self._tell(news.answered_message(own.number))
        else:
            self._tell(news.finished_message(own.number))

    def in_flight_messages(self) -> tuple[bytes, int]:
        """All that another router must hear that hears this one from now on, and how many messages it is."""
        return b"".join([own.so_far() for own in self._own.values()]), len(self._own)

    def heard(self, peer: Hashable, what: News, now: float) -> None:
        """Another router, on the connection `peer`, says so.

        Raises PeerError when it has more than `MAX_IN_FLIGHT` requests in flight, or one twice.
        """
        kind = type(what)
        if kind is Sent:
            self._heard_sent(peer, cast(Sent, what), now)
        elif kind is not Alive:
            self._heard_later(peer, cast(FirstToken | Finished | Answered, what), now)

    def _heard_later(self, peer: Hashable, what: FirstToken | Finished | Answered, now: float) -> None:
        in_flight = self._heard.get(peer, _NOTHING)
        ticket = in_flight.get(what.number)
        if ticket is None:
            return
        kind = type(what)
        if kind is not Finished:
            self._strategy.first_token(ticket, now)
        if kind is not FirstToken:
            del in_flight[what.number]
            self._counts.num_in_flight -= 1
            self._strategy.finished(ticket, now)

    def lost(self, peer: Hashable, now: float) -> None:
        """That connection ended, and with it what is known to be in flight of it."""
        for ticket in self._heard.pop(peer, _NOTHING).values():
            self._counts.num_in_flight -= 1
            self._strategy.finished(ticket, now)

    def lists(self, name: bytes) -> bool:
        """A replica of that name is listed here."""
        replica = self._named.get(name) or self._find(name)
        return replica is not None and replica.state is not State.LEAVING

    def _heard_sent(self, peer: Hashable, sent: Sent, now: float) -> None:
        in_flight = self._heard.get(peer)
        if in_flight is None:
            in_flight = self._heard[peer] = {}
        if len(in_flight) >= MAX_IN_FLIGHT:
            raise PeerError("too_many", f"{MAX_IN_FLIGHT} requests in flight are the most")
        if REQUEST_BYTES * self._counts.num_in_flight >= MAX_HEARD_BYTES:
            raise PeerError("too_many", f"{MAX_HEARD_BYTES} bytes of requests in flight are the most")
        if sent.number in in_flight:
            raise PeerError("malformed", f"request {sent.number} was sent before it finished")
        replica = self._named.get(sent.replica)
        if replica is None or replica.state is State.LEAVING:
            replica = self._find(sent.replica)
        if replica is None or replica.state is State.LEAVING:
            self._counts.dropped["replica"] += 1
            return
        in_flight[sent.number] = ticket = object()
        self._counts.num_in_flight += 1
        request = InferenceRequest(sent.num_bytes, sent.block_hashes, streamed=sent.streamed)
        choice = Choice(replica, "peer", sent.matched_bytes)
        self._strategy.sent(ticket, request, choice, now)

    def _ended(self, replica: Replica) -> None:
        self._named.pop(replica.name, None)

    def _find(self, name: bytes) -> Replica | None:
        self._named.pop(name, None)
        replica = self._replicas.by_url.get(f"http://{name.decode('ascii', 'replace')}")
        if replica is not None:
            self._named[name] = replica
        return replica


class Sides:
    """Several `Shared` on the same connections, each for replicas of its own; what it hears is for one."""

    def __init__(self, *sides: Shared) -> None:
        self._sides = sides

    def in_flight_messages(self) -> tuple[bytes, int]:
        """Those of all."""
        said = [side.in_flight_messages() for side in self._sides]
        return b"".join(data for data, _ in said), sum(num for _, num in said)

    def heard(self, peer: Hashable, what: News, now: float) -> None:
        """A request is for the side that lists its replica, the first where none does; the rest for who knows
        its number. Raises PeerError as `Shared` does.
        """
        if type(what) is not Sent:
            for side in self._sides:
                side.heard(peer, what, now)
            return
        replica = what.replica
        for side in self._sides:
            if side.lists(replica):
                side.heard(peer, what, now)
                return
        self._sides[0].heard(peer, what, now)

    def lost(self, peer: Hashable, now: float) -> None:
        """That connection ended."""
        for side in self._sides:
            side.lost(peer, now)
