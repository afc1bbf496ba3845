"""How far apart replicas' work must be, where every session or shared context stays on one replica.

    python benchmarks/routing/balance.py [--seeds 21 22]

Busiest over mean, of seconds of computing prompts, when each session (in `document` and
`shared_system_prompt`: each context) is computed whole once and then only what is new, on one replica that
forgets nothing. `known` has all sessions before it begins and gives the largest first to whom has least: near
the least that is possible. `seen` gives each, when it comes first, to whom has computed least so far, as a
router can that moves no session. `copied` has all sessions, too, and computes what they begin with in common
once on each replica that it gives one of them. Policies that copy or move what is cached may be below.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from cells import Cell, traffic
from run import cells

from hypertier.simulation.engine import EngineProfile
from hypertier.simulation.trace import BLOCK_TOKENS, TracedRequest

MAX_APART = 1.1


def own_seconds(trace: Sequence[TracedRequest], profile: EngineProfile) -> list[tuple[str, float]]:
    """Of each request its session, and its time where the session's blocks of before are held."""
    held: dict[str, set[int]] = {}
    found = []
    for request in trace:
        blocks = held.setdefault(request.session, set())
        known = next(
            (i for i, block in enumerate(request.blocks) if block not in blocks), len(request.blocks)
        )
        start = min(known * BLOCK_TOKENS, request.input_tokens - 1)
        found.append((request.session, profile.prefill_seconds(start, request.input_tokens)))
        blocks.update(request.blocks[: request.input_tokens // BLOCK_TOKENS])
    return found


def apart(loads: Sequence[float]) -> float:
    """Busiest over mean."""
    return max(loads) / statistics.fmean(loads)


def known(sessions: Iterable[float], num_replicas: int) -> float:
    """Largest first, to whom has least."""
    loads = [0.0] * num_replicas
    for seconds in sorted(sessions, reverse=True):
        loads[loads.index(min(loads))] += seconds
    return apart(loads)


def seen(requests: Iterable[tuple[str, float]], num_replicas: int) -> float:
    """In order of arrival, a session's first request to whom has least so far."""
    loads = [0.0] * num_replicas
    homes: dict[str, int] = {}
    for session, seconds in requests:
        home = homes.setdefault(session, loads.index(min(loads)))
        loads[home] += seconds
    return apart(loads)


def copied(sessions: Sequence[tuple[float, str, float]], num_replicas: int) -> tuple[float, float] | None:
    """Work over the least there can be, and busiest over mean: the least work with that within 1.1.

    A session is its own seconds, what it begins with in common with others, and the seconds for that, which
    each replica computes once. None where no weight of such copies brings replicas as near as that.
    """
    once = {name: shared for _, name, shared in sessions}
    least = sum(own for own, _, _ in sessions) + sum(once.values())
    found = []
    for weight in (1, 2, 3, 5, 9, 17, 33, 65, 129):
        loads, held = [0.0] * num_replicas, set[tuple[int, str]]()
        for own, name, shared in sorted(sessions, reverse=True):
            costs = [load + weight * shared * ((i, name) not in held) for i, load in enumerate(loads)]
            home = costs.index(min(costs))
            loads[home] += own + shared * ((home, name) not in held)
            held.add((home, name))
        if apart(loads) <= MAX_APART:
            found.append((sum(loads) / least, apart(loads)))
    return min(found, default=None)


def with_shared(trace: Sequence[TracedRequest], profile: EngineProfile) -> list[tuple[float, str, float]]:
    """The sessions, for `copied`: what their first prompts have in common with others' counts apart."""
    first = {request.session: request for request in reversed(trace)}
    users = Counter(block for request in first.values() for block in set(request.blocks))
    shared = {name: sum(1 for block in request.blocks if users[block] > 1) for name, request in first.items()}
    own = dict.fromkeys(first, 0.0)
    for session, seconds in own_seconds(trace, profile):
        own[session] += seconds
    found = []
    for name, request in first.items():
        end = min(shared[name] * BLOCK_TOKENS, request.input_tokens - 1)
        common = profile.prefill_seconds(0, end) if end else 0.0
        beginning = str(request.blocks[shared[name] - 1]) if end else ""
        found.append((own[name] - common, beginning, common))
    return found


def bounds(cell: Cell, seed: int) -> tuple[float, float]:
    """`known` and `seen` of a cell."""
    requests = own_seconds(traffic(cell, seed), cell.spec.profile)
    totals: dict[str, float] = {}
    for session, seconds in requests:
        totals[session] = totals.get(session, 0.0) + seconds
    return known(totals.values(), cell.num_replicas), seen(requests, cell.num_replicas)


def main() -> None:
    """A line for each workload and number of replicas."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22])
    options = parser.parse_args()
    for cell in cells(tuple({"num_replicas": num} for num in (4, 8, 16, 64, 512))):
        found = [bounds(cell, seed) for seed in options.seeds]
        sessions = with_shared(traffic(cell, options.seeds[0]), cell.spec.profile)
        copies = copied(sessions, cell.num_replicas)
        least, usual = (statistics.fmean(column) for column in zip(*found, strict=True))
        told = f"{copies[1]:.2f} with {copies[0]:.3f} of the least work" if copies else "above 1.1"
        print(
            f"{cell.workload:22} {cell.num_replicas:4} replicas: "
            f"known {least:.2f}, seen {usual:.2f}, copied {told}",
            flush=True,
        )


if __name__ == "__main__":
    main()
