"""A cell's figures from the requests of all its seeds, and how far they could be off.

A ratio of one seed rests on a few hundred waits, and the best of many peers on the same seeds is partly the
luckiest. So quantiles go over the requests of all seeds together; ranges are the middle nine tenths of what
comes out when the seeds are drawn anew, with repetition, the same for every policy; and a cell's peer is
named twice: the best on these seeds, as the aim is put, and the one that was best on others.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samples import Sample

NUM_DRAWS = 400
MIDDLE = 0.9
"""A range has this share of what the draws give."""

Draw = Sequence[int]
"""How often each seed counts."""


@dataclass(frozen=True)
class Figure:
    """A value, and the range in which it may as well be."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class CellFigures:
    """Of one cell.

    `ratio` is P90 over that of `peer`, the best on these seeds, whose own seconds are `peer_p90`;
    `fair_ratio` is over that of `fair_peer`, which was best on other seeds. `busiest` is the busiest
    replica's time over the mean, the mean of the seeds.
    """

    peer: str
    ratio: Figure
    peer_p90: Figure
    fair_peer: str
    fair_ratio: Figure
    busiest: Figure


class Pool:
    """The waits of one policy in one cell, of all seeds; each seed counts by its number of requests."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._longest_first = sorted(
            ((wait, seed) for seed, sample in enumerate(samples) for wait in sample.waits), reverse=True
        )
        self._weights = [sample.num_requests / len(sample.waits) for sample in samples]
        self._sizes = [sample.num_requests for sample in samples]

    def quantile(self, share: float, draw: Draw) -> float:
        """The smallest wait that at least `share` of the requests do not exceed."""
        room = (1 - share) * sum(times * size for times, size in zip(draw, self._sizes, strict=True))
        weights = [times * weight for times, weight in zip(draw, self._weights, strict=True)]
        room += 1e-9
        for wait, seed in self._longest_first:
            room -= weights[seed]
            if room < 0:
                return wait
        return self._longest_first[-1][0]


def draws(num_seeds: int, seed: int = 0) -> list[Draw]:
    """`NUM_DRAWS` times as many seeds as there are, with repetition; the same for all that is compared."""
    source = random.Random(seed)
    found = []
    for _ in range(NUM_DRAWS):
        drawn = source.choices(range(num_seeds), k=num_seeds)
        found.append([drawn.count(i) for i in range(num_seeds)])
    return found


def best(cell: Mapping[str, Sequence[Sample]], peers: Sequence[str]) -> str:
    """The peer of the lowest pooled P90."""
    pools = {name: Pool(cell[name]) for name in peers}
    return min(peers, key=lambda name: pools[name].quantile(0.9, [1] * len(cell[name])))


def figures(
    cell: Mapping[str, Sequence[Sample]], ours: str, peers: Sequence[str], fair_peer: str
) -> CellFigures:
    """From policy -> samples, those of all policies in the same order of seeds."""
    peer = best(cell, peers)
    num_seeds = len(cell[ours])
    drawn = draws(num_seeds)
    pools = {name: Pool(cell[name]) for name in (ours, peer, fair_peer)}

    def p90(name: str) -> list[float]:
        """Of all seeds as they are, then of each draw."""
        return [pools[name].quantile(0.9, draw) for draw in ([1] * num_seeds, *drawn)]

    of_ours, of_peer, of_fair = p90(ours), p90(peer), p90(fair_peer)
    imbalances = [sample.summary.imbalance_ratio for sample in cell[ours]]
    return CellFigures(
        peer,
        ranged(_ratios(of_ours, of_peer)),
        ranged(of_peer),
        fair_peer,
        ranged(_ratios(of_ours, of_fair)),
        ranged([_mean(imbalances, draw) for draw in ([1] * num_seeds, *drawn)]),
    )


def ranged(values: Sequence[float]) -> Figure:
    """The first of `values`, and the range of the others."""
    first, *others = values
    others.sort()
    outside = (1 - MIDDLE) / 2
    low, high = math.floor(outside * len(others)), math.ceil((1 - outside) * len(others)) - 1
    return Figure(first, others[low], others[high])


def above(found: Sequence[Figure], limit: float) -> tuple[int, int]:
    """How many are above it, and how many by more than noise: the low end of their range is, too."""
    return sum(one.value > limit for one in found), sum(one.low > limit for one in found)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def _mean(values: Sequence[float], draw: Draw) -> float:
    return statistics.fmean(values, weights=draw)
