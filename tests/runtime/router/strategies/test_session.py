"""Sessions stay, move as little as they must, and never overload a replica."""

from __future__ import annotations

import math
from collections import Counter

from fakes_router import healthy_replicas
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.openai import InferenceRequest
from hypertier.router.picking import Picker
from hypertier.router.replicas import Replica, ReplicaSet
from hypertier.router.residency import Residency
from hypertier.router.strategies.session import BOUND, MIN_BOUND, Session

SESSIONS = [InferenceRequest(session=b"session-%d" % number) for number in range(2000)]


def picker(num_replicas: int) -> tuple[Picker, ReplicaSet]:
    replicas, _ = healthy_replicas(num_replicas)
    return Picker(Session(replicas), replicas, Residency(1 << 20)), replicas


def homes(one: Picker) -> list[Replica]:
    picks = [one.pick(request) for request in SESSIONS]
    return [pick.replica for pick in picks if pick is not None]


def test_sessions_are_spread_over_the_replicas() -> None:
    one, _ = picker(8)

    counts = Counter(homes(one))

    assert len(counts) == 8
    assert max(counts.values()) < 1.5 * len(SESSIONS) / 8


def test_only_sessions_of_a_lost_replica_move() -> None:
    one, replicas = picker(8)
    before = homes(one)
    lost = replicas.healthy[3]

    replicas.eject(lost, "test")
    after = homes(one)

    assert all(then is now for then, now in zip(before, after, strict=True) if then is not lost)
    replicas.admit(lost)
    assert homes(one) == before


@given(st.lists(st.integers(0, 3), max_size=200))
def test_no_replica_takes_more_than_its_bound(sessions: list[int]) -> None:
    one, replicas = picker(4)

    for number in sessions:
        pick = one.pick(SESSIONS[number])
        assert pick is not None
        replicas.start(pick.replica, 0)

    bound = max(MIN_BOUND, math.ceil(BOUND * (len(sessions) + 1) / 4))
    assert max(replica.in_flight for replica in replicas.healthy) <= bound


def test_session_that_had_to_move_is_counted_as_spilled() -> None:
    one, replicas = picker(2)
    reasons = []

    for _ in range(MIN_BOUND + 1):
        pick = one.pick(SESSIONS[0])
        assert pick is not None
        replicas.start(pick.replica, 0)
        reasons.append(pick.reason)

    assert reasons == ["session"] * MIN_BOUND + ["spill"]
