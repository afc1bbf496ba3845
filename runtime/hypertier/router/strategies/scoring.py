"""Which replica to give a prompt: arithmetic on sizes, sets of replicas and a clock, without a word of HTTP.

The cost of a replica is the wait until it gets to the prompt, plus the time that it then takes for it, plus
what both cost others:

    cost = wait + (1 + delayed) * prefill(held, size) + later
           + RETURNING * mean prefill * in flight / (1 + crowd)
    delayed = (crowd + arrivals / idle * (wait + prefill(held, size) / 2)) / 2

`wait` and `prefill` are seconds, learned from the first tokens that the router sees. `delayed` is how many
prompts come behind and wait for this one, the mean of two estimates: `crowd`, as many as wait at a replica on
the mean, and as many as come until this replica has nothing left to do, by the prompts a second that it gets
and the share of the time in which it is idle: those of the mean replica, and of prompts that go on where one
ended as many more as this one was sent more of late. The latter is the relative value of a queue in order of
arrival (Hyytia, Penttinen and Aalto, Size- and state-aware dispatching problem with queue-specific job sizes,
2012). An idle cluster therefore serves a prompt wherever it is done soonest, and a crowded one where it is
least work. `later` is for the turns that are to follow where this one goes: what they wait there, and have
others wait (`loads.Outlook`). Where prompts wait, a session so leaves a replica that many come back to, and
where none do, it stays. The last term is for answers that are being written: some of them come back with the
next turn, to the same replica. Costs within `NEAR` of the lowest count as equal: of such replicas that hold
as much of the prompt, the one with least work of late is chosen. Until times are known, it is sizes that
count:

    cost = waiting + (1 + in flight) * (size - held) + SHARING * mean size * in flight

What waits there is waited for once, and only the prompt's own part takes its time from all who share the
engine. LMetric multiplies both (https://github.com/vllm-project/router, read 2026-12-01), and so has a long
prompt computed anew elsewhere rather than let it wait for a little. The last term ends a crowd at one replica
where all that they ask is held.

Sizes are tokens or bytes, whichever the caller counts, as long as it is always the same. Replicas are numbers
from 0 on, and sets of them whole numbers with their bits set, as in `holders`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Hashable, Sequence
from itertools import chain, islice
from typing import Final

from hypertier.router.kv.holders import members
from hypertier.router.strategies.loads import AS_BELIEVED, LESS, MORE, NOTHING, Load, Sent, Traffic
from hypertier.router.strategies.prefill_times import PrefillModel

MAX_CROWD: Final = 32.0
"""More prompts are not taken to be delayed by one, by either estimate."""
NEAR: Final = 0.05
"""Predictions are no better: costs that are higher than the lowest by such a share are as good."""
RETURNING: Final = 0.3
"""Share of a mean prompt's work that a request in flight is expected to bring back."""
SHARING: Final = 0.1
"""Until times are known: share of a mean prompt that a request in flight counts for, whatever it holds."""
MIN_DRIFT, MAX_DRIFT = 0.25, 1.5
"""Logarithms of how much slower than the others a replica is: within the first it counts as equal."""
SMALL_SET = 8
"""Sets up to this size are looked at one by one; of larger ones, this many that are free soonest."""
MAX_GROUPS: Final = 12
APART: Final = 3.0
"""Times so far apart tell whether a prompt was computed whole, or from what was held on."""


class Choice:
    """A replica, how much of the prompt it is believed to hold, and when its first token is expected.

    `seconds` is None as long as times are not known.
    """

    __slots__ = ("held", "replica", "seconds")

    def __init__(self, replica: int, held: float, seconds: float | None) -> None:
        self.replica = replica
        self.held = held
        self.seconds = seconds


def _cost(wait: float, own: float, crowd: float, arriving: float) -> float:
    """Seconds until a prompt is computed that takes `own`, and half of each estimate of whom it delays."""
    behind = min(arriving * (wait + 0.5 * own), MAX_CROWD)
    return wait + own + 0.5 * (crowd + behind) * own


def _surprise(took: float, expected: float, whole: float) -> int:
    """What it says of a prompt's held part that it `took` so long; `whole` is the time without one."""
    if whole > APART * expected:
        return LESS if took * took > expected * whole else AS_BELIEVED
    return MORE if took * APART < expected else NOTHING


class Scoring:
    """Chooses among replicas, and learns from what became of the choices.

    Every request that is sent has a `ticket`, unique among those in flight. Where several routers tell one
    another of theirs, the siblings' are told here like one's own.
    """

    def __init__(self) -> None:
        self.model = PrefillModel()
        self._loads: dict[int, Load] = {}
        self._by_ready: list[tuple[float, int]] = []  # only where there are more than `SMALL_SET`
        self._sent: dict[Hashable, Sent] = {}
        self._num_pending = 0
        self._drifts = 0.0
        self.computing = 0
        """The set of replicas that have a prompt without a first token."""
        self._mean_size = 0.0
        self._traffic = Traffic()
        self._num_faster = 0
        self._turn = 0

    def add(self, replica: int, now: float) -> None:
        """A replica came: nothing is in flight there."""
        if replica not in self._loads:
            load = self._loads[replica] = Load(replica, now)
            if len(self._loads) == SMALL_SET + 1:
                self._by_ready = sorted((one.ready_at, number) for number, one in self._loads.items())
            elif len(self._loads) > SMALL_SET:
                insort(self._by_ready, (load.ready_at, replica))

    def remove(self, replica: int) -> None:
        """It is gone, and nothing that is in flight there counts any more, until that ends."""
        load = self._loads.pop(replica, None)
        if load is not None:
            if len(self._loads) > SMALL_SET:
                del self._by_ready[bisect_left(self._by_ready, (load.ready_at, replica))]
            else:
                self._by_ready = []
            self._num_pending -= len(load.pending)
            self._drifts -= load.drift
            self._num_faster -= load.slowness < 1.0
            self.computing &= ~(1 << replica)
            load.is_gone = True

    def choose(self, size: float, groups: Sequence[tuple[float, int]], among: int, now: float) -> Choice:
        """The replica of the lowest cost; of those about equal, the one with least work of late.

        Args:
            size: of the prompt.
            groups: sizes of the prompt's beginning, most first, each with the set of replicas that hold just
                so much.
            among: the set of replicas to choose from; not empty, and all of them added.
            now: seconds of the clock that all methods are given.
        """
        known = self.model.calibrated
        crowd = min(self.crowd(now), MAX_CROWD)
        outlook = self._traffic.outlook(now, len(self._loads))
        least_arriving = outlook.arriving(outlook.least)
        returning = RETURNING * self._traffic.mean_seconds / (1.0 + crowd)
        model, loads = self.model, self._loads
        sharing = SHARING * self._mean_size
        rest = among
        slack = 1.0 + NEAR if known else 1.0
        limit = lowest = math.inf
        best_held = 0.0
        near: list[tuple[float, Load, float, float]] = []
        for held, replicas in (*groups[:MAX_GROUPS], (0.0, -1)):
            some = rest & replicas
            if not some:
                continue
            rest &= ~some
            # An engine computes at least the prompt's last token.
            held = min(held, size - 1)
            own = model.seconds(held, size)
            # Who holds less has more to do: none of them, waiting or not, comes near the best so far.
            if known and not self._num_faster and _cost(0.0, own, crowd, least_arriving) > limit:
                break
            for replica in self._some_of(some, known):
                load = loads[replica]
                if known:
                    wait = 0.0
                    if load.pending:
                        self._settle(load, now)
                        wait = load.wait(now)
                    alone = own * load.slowness
                    times = outlook.times(load.work(now))
                    cost = _cost(wait, alone, crowd, outlook.arriving(times)) + outlook.later(times)
                    cost += returning * load.in_flight
                    seconds = wait + alone
                else:
                    in_flight = load.in_flight
                    cost = load.pending_size + (size - held) * (in_flight + 1) + sharing * in_flight
                    seconds = 0.0
                if cost > limit:
                    continue
                near.append((cost, load, held, seconds))
                if cost < lowest:
                    lowest, best_held = cost, held
                    limit = slack * cost
        best: Load | None = None
        least = best_seconds = 0.0
        for cost, load, held, seconds in near:
            if cost <= limit and held == best_held:
                work = load.work(now)
                if best is None or work < least or (work == least and _is_freer(load, best)):
                    best, least, best_seconds = load, work, seconds
        if best is None:
            raise ValueError("there is no replica to choose from")
        return Choice(best.number, best_held, best_seconds if known else None)

    def sent(
        self,
        ticket: Hashable,
        replica: int,
        held: float,
        size: float,
        now: float,
        *,
        streamed: bool = True,
        goes_on: bool = False,
    ) -> None:
        """A prompt goes to `replica`, which is believed to hold so much of it.

        Where its answer is not `streamed`, no first token will be seen: once times are known, the prompt
        counts as computed when its time has passed. It `goes_on` where one that the replica was sent ended.
        """
        load = self._loads.get(replica)
        if load is None:
            return
        self.crowd(now)
        held = min(held, size - 1)
        self._mean_size += (0.02 if self._mean_size else 1.0) * (size - self._mean_size)
        self._sent[ticket] = Sent(load, held, size, now, streamed)
        seconds = self.model.seconds(held, size) * load.slowness
        self._traffic.arrived(now, seconds, goes_on)
        load.worked = load.work(now) + seconds
        load.worked_at = now
        if not load.pending:
            load.since = now
        load.pending[ticket] = seconds
        load.pending_seconds += seconds
        load.pending_size += size - held
        load.in_flight += 1
        self._num_pending += 1
        self.computing |= 1 << replica
        self._move(replica, load)

    def first_token(self, ticket: Hashable, now: float) -> Sent | None:
        """Its answer began: the engine computed the prompt since it had begun it, or had been sent it.

        Returns the request, if that tells anything, with what its time says of what was held.
        """
        sent = self._sent.get(ticket)
        if sent is None or not sent.computing or sent.load.is_gone:
            return None
        load = sent.load
        self._settle(load, now)
        if ticket not in load.pending:  # streamed after all, and taken as computed just now
            return None
        took = now - max(sent.at, load.since)
        expected = self.model.seconds(sent.held, sent.size)
        was_known = self.model.calibrated
        if was_known and expected > 0 and took > 0:
            sent.surprise = _surprise(took / load.slowness, expected, self.model.seconds(0.0, sent.size))
            if sent.surprise in (NOTHING, AS_BELIEVED):
                self._drift(load, math.log(took / expected), expected)
        self.model.learn(0.0 if sent.surprise == LESS else sent.held, sent.size, took / load.slowness)
        self._computed(ticket, sent, load, now)
        load.since = now
        self._move(load.number, load)
        if self.model.calibrated and not was_known:
            self._estimate_anew(now)
        return sent

    def finished(self, ticket: Hashable, now: float) -> Sent | None:
        """Its answer ended, or it never got one. Returns what it was, None for a request not in flight."""
        sent = self._sent.pop(ticket, None)
        if sent is None or sent.load.is_gone:
            return None
        load = sent.load
        if sent.computing:
            self._computed(ticket, sent, load, now)
            self._move(load.number, load)
        load.in_flight -= 1
        return sent

    def crowd(self, now: float) -> float:
        """How many prompts wait for their first token at a replica, on the mean of the last seconds."""
        traffic = self._traffic
        traffic.pass_until(now, self._num_pending, self.computing.bit_count(), len(self._loads))
        return traffic.crowd

    def in_flight(self, replica: int) -> int:
        """Requests sent there and not finished."""
        load = self._loads.get(replica)
        return load.in_flight if load is not None else 0

    def pending_size(self, replica: int) -> float:
        """Of the prompts without a first token there, what is to be computed."""
        load = self._loads.get(replica)
        return load.pending_size if load is not None else 0.0

    def _drift(self, load: Load, off: float, expected: float) -> None:
        """A prompt took exp(`off`) times the `expected` seconds; small differences are noise.

        What is held is known to within some bytes, so what takes long says more. What all replicas have in
        common is the model's to learn: slower is slower than the mean.
        """
        weight = 0.1 * expected / (expected + self._traffic.mean_seconds)
        change = weight * (min(max(off, -MAX_DRIFT), MAX_DRIFT) - load.drift)
        load.drift += change
        self._drifts += change
        apart = load.drift - self._drifts / len(self._loads)
        self._num_faster -= load.slowness < 1.0
        load.slowness = math.exp(apart) if abs(apart) > MIN_DRIFT else 1.0
        self._num_faster += load.slowness < 1.0

    def _estimate_anew(self, now: float) -> None:
        """Times are known from now on, and what waits was sent without."""
        for load in self._loads.values():
            if not load.pending:
                continue
            before = load.pending_seconds
            for ticket in load.pending:
                sent = self._sent[ticket]
                load.pending[ticket] = self.model.seconds(sent.held, sent.size) * load.slowness
            load.pending_seconds = sum(load.pending.values())
            load.worked = load.work(now) + load.pending_seconds - before
            load.worked_at = now
            self._move(load.number, load)

    def _settle(self, load: Load, now: float) -> None:
        """Take what is not streamed and ought to be computed as computed; `ready_at` stays what it was."""
        while load.pending:
            ticket, seconds = next(iter(load.pending.items()))
            sent = self._sent[ticket]
            if sent.streamed or now < load.since + seconds or not self.model.calibrated:
                return
            self._computed(ticket, sent, load, now)
            load.since += seconds

    def _computed(self, ticket: Hashable, sent: Sent, load: Load, now: float) -> None:
        self.crowd(now)
        sent.computing = False
        self._num_pending -= 1
        load.pending_seconds -= load.pending.pop(ticket)
        load.pending_size -= sent.size - sent.held
        if not load.pending:
            load.pending_seconds = load.pending_size = 0.0
            self.computing &= ~(1 << load.number)

    def _move(self, replica: int, load: Load) -> None:
        """Keep the replicas in the order in which they are free, where not all are looked at anyway."""
        by_ready = self._by_ready
        if by_ready:
            del by_ready[bisect_left(by_ready, (load.ready_at, replica))]
        load.ready_at = load.since + load.pending_seconds
        if by_ready:
            insort(by_ready, (load.ready_at, replica))

    def _some_of(self, replicas: int, known: bool) -> list[int]:
        """All of a small set; of a large one those free soonest, or any while times are not known."""
        by_ready = self._by_ready
        if not by_ready or replicas.bit_count() <= SMALL_SET:
            return members(replicas)
        found: list[int] = []
        start = 0
        if not known:
            self._turn = start = (self._turn + SMALL_SET) % len(by_ready)
        for _, replica in chain(islice(by_ready, start, None), islice(by_ready, start)):
            if replicas >> replica & 1:
                found.append(replica)
                if len(found) == SMALL_SET:
                    break
        return found


def _is_freer(load: Load, than: Load) -> bool:
    """Fewer requests, or free for longer, or a lower number."""
    if load.in_flight != than.in_flight:
        return load.in_flight < than.in_flight
    if load.ready_at != than.ready_at:
        return load.ready_at < than.ready_at
    return load.number < than.number
