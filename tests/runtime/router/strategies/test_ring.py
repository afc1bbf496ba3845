"""A ring that replicas join and leave one by one is the ring that is made of those that are there."""

from __future__ import annotations

from fakes_router import healthy_replicas
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from hypertier.router.replicas.replicas import Replica
from hypertier.router.strategies.ring import POINTS, Ring, points_of

_, REPLICAS = healthy_replicas(6)


def sorted_anew(replicas: set[Replica], key: bytes) -> list[Replica]:
    """Owners of all points, from the first one above the key's place on."""
    points = sorted((point, replica.url, replica) for replica in replicas for point in points_of(replica.url))
    place = xxh3_64_intdigest(key)
    behind = [owner for point, _, owner in points if point > place]
    return behind + [owner for point, _, owner in points if point <= place]


@given(st.lists(st.integers(0, 5), max_size=20), st.binary(max_size=4))
def test_a_walk_is_that_of_all_points_sorted_anew(steps: list[int], key: bytes) -> None:
    ring, there = Ring(), set[Replica]()

    for number in steps:
        replica = REPLICAS[number]
        (ring.remove if replica in there else ring.add)(replica)
        there ^= {replica}

    assert list(ring.walk(key)) == sorted_anew(there, key)
    assert all((replica in ring) == (replica in there) for replica in REPLICAS)
    assert len(list(ring.walk(key))) == POINTS * len(there)
