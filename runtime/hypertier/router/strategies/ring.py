"""Consistent hashing: places of replicas on a ring, of which few change when one comes or goes."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterator
from typing import Final

import xxhash

from hypertier.router.replicas.replicas import Replica

POINTS: Final = 64
"""Of each replica on the ring: shares differ by an eighth, and a choice costs no more with many replicas."""
ARC_BITS: Final = 8
NUM_ARCS: Final = 1 << ARC_BITS
"""Equal parts of the ring, each with a list of its own, so that a new point moves few others."""


class Ring:
    """Replicas by the points that their URLs hash to, 64 bits each."""

    def __init__(self) -> None:
        self._arcs: list[list[int]] = [[] for _ in range(NUM_ARCS)]
        self._owners: dict[int, Replica] = {}
        self._replicas: set[Replica] = set()

    def __contains__(self, replica: Replica) -> bool:
        return replica in self._replicas

    def add(self, replica: Replica) -> None:
        """Put it on the ring."""
        self._replicas.add(replica)
        for point in points_of(replica.url):
            if point not in self._owners:  # else another's, as of 2 ** 64 few are
                self._owners[point] = replica
                insort(self._arcs[point >> 64 - ARC_BITS], point)

    def remove(self, replica: Replica) -> None:
        """Take it off the ring."""
        self._replicas.discard(replica)
        for point in points_of(replica.url):
            if self._owners.get(point) is replica:
                del self._owners[point]
                arc = self._arcs[point >> 64 - ARC_BITS]
                del arc[bisect(arc, point) - 1]

    def walk(self, key: bytes) -> Iterator[Replica]:
        """Owners of the points behind the key, once around; each as often as it has points."""
        place = xxhash.xxh3_64_intdigest(key)
        first = place >> 64 - ARC_BITS
        arc = self._arcs[first]
        begin = bisect(arc, place)
        owners = self._owners
        for point in arc[begin:]:
            yield owners[point]
        for number in range(first + 1, first + NUM_ARCS):
            for point in self._arcs[number % NUM_ARCS]:
                yield owners[point]
        for point in arc[:begin]:
            yield owners[point]


def points_of(url: str) -> list[int]:
    """Where a replica's points are."""
    name = url.encode()
    return [xxhash.xxh3_64_intdigest(name, seed) for seed in range(POINTS)]
