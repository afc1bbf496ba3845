"""Sessions stay, move as little as they must, and never overload a replica."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fakes_router import Traffic, healthy_replicas
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.replicas import Replica
from hypertier.router.strategies.session import BOUND, MIN_BOUND, Session
from hypertier.router.strategies.strategy import Choice

SESSIONS = [InferenceRequest(session=b"session-%d" % number) for number in range(2000)]


def homes(traffic: Traffic) -> list[Replica]:
    return [traffic.serve(request).replica for request in SESSIONS]


def test_sessions_are_spread_over_the_replicas() -> None:
    counts = Counter(homes(Traffic("session", 8)))

    assert len(counts) == 8
    assert max(counts.values()) < 1.5 * len(SESSIONS) / 8


def test_only_sessions_of_a_lost_replica_move() -> None:
    traffic = Traffic("session", 8)
    before = homes(traffic)
    lost = traffic.replicas.healthy[3]

    traffic.replicas.eject(lost, "test")
    after = homes(traffic)

    assert all(then is now for then, now in zip(before, after, strict=True) if then is not lost)
    traffic.replicas.admit(lost)
    assert homes(traffic) == before


@given(st.lists(st.integers(0, 3), max_size=200))
def test_no_replica_takes_more_than_its_bound(sessions: list[int]) -> None:
    traffic = Traffic("session", 4)

    for number in sessions:
        traffic.send(SESSIONS[number])

    bound = max(MIN_BOUND, math.ceil(BOUND * (len(sessions) + 1) / 4))
    assert max(replica.in_flight for replica in traffic.replicas.healthy) <= bound


def test_session_that_had_to_move_is_counted_as_spilled() -> None:
    traffic = Traffic("session", 2)

    reasons = [traffic.send(SESSIONS[0]).reason for _ in range(MIN_BOUND + 1)]

    assert reasons == ["session"] * MIN_BOUND + ["spill"]


def serving(traffic: Traffic, model: bytes, replicas: Sequence[Replica]) -> None:
    for replica in replicas:
        traffic.models.learn(replica, [{"id": model.decode()}])


@given(num_busy=st.integers(1, 3), num_idle=st.integers(1, 12), num_sessions=st.integers(20, 200))
def test_replicas_of_another_model_are_no_part_of_the_mean(
    num_busy: int, num_idle: int, num_sessions: int
) -> None:
    """However many stand idle beside them, those of the model that is asked for share its load alone."""
    mixed, alone = Traffic("session", num_busy + num_idle), Traffic("session", num_busy)
    serving(mixed, b"busy", mixed.replicas.healthy[:num_busy])
    serving(mixed, b"idle", mixed.replicas.healthy[num_busy:])

    sent = [session.replace(model=b"busy") for session in SESSIONS[:num_sessions]]
    choices = [[traffic.send(request) for request in sent] for traffic in (mixed, alone)]

    for one, other in zip(*choices, strict=True):
        assert one.replica.url == other.replica.url
        assert one.reason in (other.reason, "only")


def test_what_other_models_have_in_flight_makes_no_replica_less_full() -> None:
    replicas, (one, two, *others) = healthy_replicas(4)
    strategy = Session(replicas)
    for number in range(400):
        strategy.sent(number, InferenceRequest(), Choice(others[number % 2], "test"), 0.0)

    for number in range(1000, 1040):
        request = InferenceRequest(session=b"one")
        strategy.sent(number, request, strategy.choose(request, [one, two], 0.0), 0.0)

    assert max(strategy.load(one), strategy.load(two)) <= BOUND * 40 / 2 + 1
