"""What routers tell one another counts like their own, and no longer than it should."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any, cast

import pytest
from fakes_router import healthy_replicas
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import PeerError
from hypertier.router.api.openai import InferenceRequest
from hypertier.router.discovery.addresses import Address
from hypertier.router.peers import sharing
from hypertier.router.peers.news import Answered, Finished, FirstToken, News, Reader, Sent
from hypertier.router.peers.sharing import Shared, Sides
from hypertier.router.picking import Picker
from hypertier.router.replicas.cache_sizes import CacheSizes
from hypertier.router.replicas.replicas import Replica, ReplicaSet
from hypertier.router.strategies import build
from hypertier.router.strategies.by_load import ByLoad
from hypertier.router.strategies.prefixaware import PrefixAware
from hypertier.router.strategies.session import BOUND, MIN_BOUND
from hypertier.router.telemetry.metrics import PeerCounts

SHARING = ("prefixaware", "kvaware", "session")


class Side:
    """One router's picking, whose messages reach `others` at once, through the bytes of the protocol."""

    def __init__(self, num_replicas: int = 3, strategy: str = "prefixaware") -> None:
        self.replicas, _ = healthy_replicas(num_replicas)
        self.counts = PeerCounts()
        self.inner = build(
            strategy, replicas=self.replicas, index_bytes=1 << 20, sizes=CacheSizes(), now=lambda: 0.0
        )
        self.shared = Shared(self.inner, self.replicas, tell=self.tell, counts=self.counts)
        self.picker = Picker(self.shared, self.replicas)
        self.others: list[Side] = []

    def tell(self, message: bytes) -> None:
        for other in self.others:
            other.hear(self, message)

    def hear(self, peer: Any, data: bytes) -> None:
        for what in Reader().feed(data):
            self.shared.heard(peer, what, 1.0)

    def send(self, ticket: Any, request: InferenceRequest) -> Replica:
        choice = self.picker.pick(ticket, request, 1.0)
        assert choice is not None
        return choice.replica

    @property
    def in_flight(self) -> list[int]:
        if isinstance(self.inner, ByLoad):
            return [self.inner.load(replica) for replica in self.replicas.by_url.values()]
        assert isinstance(self.inner, PrefixAware)
        scoring = self.inner._scoring
        return [scoring.in_flight(number) for number in range(len(self.replicas.by_url))]


def sides(count: int, num_replicas: int = 3, strategy: str = "prefixaware") -> list[Side]:
    made = [Side(num_replicas, strategy) for _ in range(count)]
    for one in made:
        one.others = [other for other in made if other is not one]
    return made


def test_answer_in_one_piece_is_told_in_two_messages_and_a_streamed_one_in_three() -> None:
    told: list[News] = []
    side = Side()
    side.shared._tell = lambda message: told.extend(Reader().feed(message))

    for ticket, streamed in (("whole", False), ("stream", True)):
        side.send(ticket, PROMPT.replace(streamed=streamed))
        side.shared.first_token(ticket, 2.0)
        side.shared.finished(ticket, 2.0)

    assert [type(one) for one in told] == [Sent, Answered, Sent, FirstToken, Finished]


PROMPT = InferenceRequest(1000, (1, 2, 3, 4), streamed=True)


@pytest.mark.parametrize("strategy", SHARING)
@pytest.mark.parametrize("count", [2, 3])
def test_routers_that_share_send_equal_prompts_to_different_replicas(count: int, strategy: str) -> None:
    routers = sides(count, strategy=strategy)

    urls = {router.send("one", PROMPT.replace(block_hashes=())).url for router in routers}

    assert len(urls) == count


def test_routers_that_share_nothing_pile_onto_one() -> None:
    routers = [Side(), Side(), Side()]

    urls = {router.send("one", PROMPT.replace(block_hashes=())).url for router in routers}

    assert len(urls) == 1


def test_a_sessions_bound_counts_what_all_routers_sent() -> None:
    routers = sides(3, strategy="session")
    request = InferenceRequest(100, session=b"the same")

    for number in range(60):
        routers[number % 3].send(number, request)

    assert max(routers[0].in_flight) <= max(MIN_BOUND, BOUND * 61 / 3 + 1)
    assert routers[0].in_flight == routers[1].in_flight == routers[2].in_flight


@pytest.mark.parametrize("strategy", ["prefixaware", "kvaware"])
def test_what_another_router_sent_is_believed_cached_there(strategy: str) -> None:
    one, other = sides(2, strategy=strategy)
    url = one.send("one", PROMPT).url
    one.shared.first_token("one", 1.0)
    one.shared.finished("one", 1.0)

    choice = other.picker.pick("other", PROMPT, 2.0)

    assert choice is not None
    assert (choice.replica.url, choice.reason) == (url, "prefix")
    assert choice.matched_bytes > 0


STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["send", "token", "finish"])), max_size=60)


@given(STEPS, st.sampled_from(SHARING))
def test_all_routers_know_the_same_in_flight_and_nothing_once_all_are_lost(
    steps: list[tuple[int, str]], strategy: str
) -> None:
    routers = sides(3, strategy=strategy)
    open_: list[list[int]] = [[], [], []]

    for number, (who, what) in enumerate(steps):
        if what == "send":
            routers[who].send(number, PROMPT.replace(block_hashes=(number,)))
            open_[who].append(number)
        elif open_[who] and what == "token":
            routers[who].shared.first_token(open_[who][0], 1.0)
        elif open_[who]:
            routers[who].shared.finished(open_[who].pop(0), 1.0)
    total = sum(map(len, open_))
    told = [sum(router.in_flight) for router in routers]
    for router in routers:
        for other in router.others:
            router.shared.lost(other, 2.0)

    assert told == [total] * 3
    assert [sum(router.in_flight) for router in routers] == [len(own) for own in open_]
    assert [router.counts.num_in_flight for router in routers] == [0, 0, 0]


def test_who_connects_late_hears_all_that_is_in_flight_and_nothing_that_ended() -> None:
    one, late = Side(), Side()
    for ticket in ("begun", "waiting", "ended"):
        one.send(ticket, PROMPT.replace(block_hashes=()))
    one.shared.first_token("begun", 1.0)
    one.shared.finished("ended", 1.0)

    data, num_requests = one.shared.in_flight_messages()
    late.hear("one", data)

    assert num_requests == 2
    assert [type(what) for what in Reader().feed(data)] == [Sent, FirstToken, Sent]
    assert late.in_flight == one.in_flight
    assert late.counts.num_in_flight == 2


def test_a_request_to_a_replica_that_is_not_listed_here_is_counted_and_ignored() -> None:
    side = Side()

    for what in (Sent(1, b"10.9.9.9:1", 10, 0, True, (1,)), FirstToken(1), Finished(1)):
        side.shared.heard("peer", what, 1.0)

    assert side.counts.dropped == {"replica": 1}
    assert side.counts.num_in_flight == 0
    assert side.in_flight == [0, 0, 0]


def test_a_replica_that_leaves_takes_what_others_sent_there_with_it() -> None:
    side = Side(2)
    name = b"10.0.0.1:8000"
    side.shared.heard("peer", Sent(1, name, 10, 0, True, ()), 1.0)

    side.replicas.replace([Address("10.0.0.2", 8000)])
    side.shared.heard("peer", Sent(2, name, 10, 0, True, ()), 1.0)
    side.shared.heard("peer", Finished(1), 1.0)

    assert side.counts.dropped == {"replica": 1}
    assert side.counts.num_in_flight == 0
    assert sum(side.in_flight) == 0


def test_one_router_has_a_bounded_number_of_requests_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MAX_IN_FLIGHT", 3)
    side = Side()
    for number in range(3):
        side.shared.heard("peer", Sent(number, b"10.0.0.1:8000", 10, 0, True, ()), 1.0)

    with pytest.raises(PeerError) as caught:
        side.shared.heard("peer", Sent(3, b"10.0.0.1:8000", 10, 0, True, ()), 1.0)

    assert caught.value.cause == "too_many"


def test_all_routers_together_have_bounded_memory_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MAX_HEARD_BYTES", 3 * sharing.REQUEST_BYTES)
    side = Side()
    sent = Sent(1, b"10.0.0.1:8000", 10, 0, True, ())
    for peer in range(3):
        side.shared.heard(peer, sent, 1.0)

    with pytest.raises(PeerError) as caught:
        side.shared.heard(3, sent, 1.0)
    side.shared.lost(0, 1.0)
    side.shared.heard(3, sent, 1.0)

    assert caught.value.cause == "too_many"


@pytest.mark.parametrize("strategy", SHARING)
def test_request_of_another_router_takes_no_more_memory_than_is_counted(strategy: str) -> None:
    side = Side(strategy=strategy)
    tracemalloc.start()
    for number in range(4000):
        side.shared.heard("peer", Sent(number, b"10.0.0.1:8000", 10, 0, True, ()), 1.0)
    took = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert took <= 4000 * sharing.REQUEST_BYTES


def test_a_request_that_is_sent_twice_is_refused() -> None:
    side = Side()
    sent = Sent(1, b"10.0.0.1:8000", 10, 0, True, ())
    side.shared.heard("peer", sent, 1.0)

    with pytest.raises(PeerError, match="before it finished"):
        side.shared.heard("peer", sent, 1.0)


def test_requests_of_others_do_not_count_as_own() -> None:
    one, other = sides(2)

    one.send("one", PROMPT)

    assert all(replica.in_flight == 0 for replica in other.replicas.healthy)
    assert other.shared.in_flight_messages() == (b"", 0)


class Split:
    """A router with replicas that decode, 10.0.0.x, and that prefill, 10.0.1.x; one connection for both."""

    def __init__(self) -> None:
        self.counts = PeerCounts()
        self.told: list[bytes] = []
        numbers = itertools.count(1)
        self.pickers, sides = [], []
        for host in ("10.0.0", "10.0.1"):
            replicas = ReplicaSet()
            replicas.replace(Address(f"{host}.{number}", 8000) for number in range(3))
            for replica in list(replicas.by_url.values()):
                replicas.admit(replica)
            inner = build(
                "prefixaware", replicas=replicas, index_bytes=1 << 20, sizes=CacheSizes(), now=lambda: 0.0
            )
            shared = Shared(inner, replicas, tell=self.told.append, counts=self.counts, numbers=numbers)
            sides.append(shared)
            self.pickers.append(Picker(shared, replicas))
        self.sharing = Sides(*sides)

    def hear(self, *said: bytes) -> None:
        for what in Reader().feed(b"".join(said)):
            self.sharing.heard("peer", what, 1.0)

    def in_flight(self, side: int) -> int:
        inner = cast(Any, self.pickers[side].strategy)._strategy
        return sum(inner._scoring.in_flight(number) for number in range(3))


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["first", "end", "both"])), max_size=12))
def test_what_prefills_and_what_decodes_is_told_on_one_connection_and_never_mixed(
    requests: list[tuple[int, str]],
) -> None:
    one, other = Split(), Split()
    open_now = [0, 0]
    for number, (side, becomes) in enumerate(requests):
        picker = one.pickers[side]
        assert picker.pick(number, InferenceRequest(1000, streamed=True), 1.0) is not None
        open_now[side] += becomes == "first"
        if becomes != "end":
            picker.strategy.first_token(number, 1.1)
        if becomes != "first":
            picker.strategy.finished(number, 1.2)
    late = Split()

    other.hear(*one.told)
    late.hear(one.sharing.in_flight_messages()[0])

    for router in (one, other, late):
        assert [router.in_flight(side) for side in (0, 1)] == open_now
    assert other.counts.num_in_flight == one.sharing.in_flight_messages()[1] == sum(open_now)
    assert other.counts.dropped["replica"] == 0
    for router in (other, late):
        router.sharing.lost("peer", 2.0)
        assert [router.in_flight(side) for side in (0, 1)] == [0, 0]
