"""Whether loading from L2 beats computing, judged by what both have cost lately. Pure: no I/O, no threads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Literal

from hypertier.tier.transfers import Patience

GateMode = Literal["auto", "open", "closed"]
MODES: tuple[GateMode, ...] = ("auto", "open", "closed")

FREE_RATIO = 0.02  # of computing, L2 may cost without saving anything
REOPEN_RATIO = 0.8  # loading must be this much cheaper than computing before a closed gate opens
FIRST_SAMPLE_SECONDS = 10.0
LONGEST_SAMPLE_SECONDS = 300.0
UNKNOWN_DEADLINES = 5  # that a load may take as long as it is not known what computing takes
MEMORY_RATIO = 0.8  # what is left of an older observation's weight after each new one


class Average:
    """Seconds per chunk, recent observations first. `prior`, if positive, stands until one is made."""

    def __init__(self, prior: float = 0.0) -> None:
        self._seconds = prior
        self._chunks = 1.0 if prior > 0 else 0.0

    def add(self, num_chunks: int, seconds: float) -> None:
        """Note that `num_chunks` took `seconds` together."""
        self._seconds = self._seconds * MEMORY_RATIO + seconds
        self._chunks = self._chunks * MEMORY_RATIO + num_chunks

    @property
    def value(self) -> float | None:
        """Seconds per chunk; None while nothing is known."""
        return self._seconds / self._chunks if self._chunks else None


class Gate:
    """Open while loading beats computing. Starts open, unless the priors say otherwise.

    It closes when loading a chunk has come to cost more than computing one, or when L2 owes more than
    `allowed_debt_seconds`: what requests have waited for lookups and loads, less what their chunks would have
    taken to compute, and less `FREE_RATIO` of all computing. It opens again when loading is clearly cheaper.
    While it is closed nothing is loaded for requests, so it asks for samples, loaded in the background; when
    it closes again soon after a sample opened it, it asks half as often. Where priors alone have closed it,
    it asks at once: an engine that has nothing to do measures nothing else.

    `patience` bounds what a load costs that turns out slow before the gate has learnt it. `min_chunks` tells
    which prefixes are too short to make up for the time that the lookup takes.
    """

    def __init__(
        self,
        mode: GateMode = "auto",
        prior_load_seconds: float = 0.0,
        prior_compute_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        load_deadline_seconds: float = math.inf,
        allowed_debt_seconds: float = math.inf,
    ) -> None:
        self._allowed_debt = allowed_debt_seconds
        self._debt = 0.0
        self._needs_sample = False
        self._load_deadline = load_deadline_seconds
        self._mode = mode
        self._clock = clock
        self._load = Average(prior_load_seconds)
        self._compute = Average(prior_compute_seconds)
        self._lookup = Average()
        self._is_open = True
        self._sample_pause = FIRST_SAMPLE_SECONDS
        self._sample_at = -math.inf
        self._opened_at = -math.inf
        self._judge()
        self._is_guess = not self._is_open  # until something is loaded
        if self._is_guess:
            self._sample_at = -math.inf

    @property
    def is_open(self) -> bool:
        """Whether L2 is asked at all."""
        return self._is_open if self._mode == "auto" else self._mode == "open"

    @property
    def load_seconds_per_chunk(self) -> float | None:
        """What loading has cost lately."""
        return self._load.value

    @property
    def compute_seconds_per_chunk(self) -> float | None:
        """What computing has cost lately, the wait for the GPU included."""
        return self._compute.value

    @property
    def min_chunks(self) -> int:
        """The shortest prefix that is worth loading, while the gate is open."""
        load, compute, lookup = self._load.value, self._compute.value, self._lookup.value
        if self._mode != "auto" or load is None or compute is None or lookup is None or load >= compute:
            return 1
        return max(1, math.ceil(lookup / (compute - load)))

    @property
    def patience(self) -> Patience | None:
        """How long a load may take; None for as long as it likes, where nothing is judged.

        Before it is known what computing takes, arrived chunks earn no more time: it soon will be.
        """
        if self._mode != "auto" or math.isinf(self._load_deadline):
            return None
        compute = self._compute.value
        if compute is None:
            return Patience(UNKNOWN_DEADLINES * self._load_deadline, 0.0)
        return Patience(self._load_deadline, compute)

    @property
    def debt_seconds(self) -> float:
        """What L2 has cost lately over what it is allowed to; below zero where it has saved time."""
        return self._debt

    def observe_load(self, num_chunks: int, seconds: float, num_useful: int | None = None) -> None:
        """Note that loading `num_chunks` from L2 took `seconds`, waiting included.

        `num_useful` is how many of them arrived, if not all. After none of them only a sample opens a closed
        gate: how long the load would have taken is not known.
        """
        self._load.add(num_chunks, seconds)
        self._is_guess = False
        if self._compute.value is not None:
            useful = num_chunks if num_useful is None else num_useful
            self._owe(seconds - useful * self._compute.value)
        self._judge()
        self._needs_sample |= num_useful == 0

    def observe_failure(self, seconds: float) -> None:
        """Note that a load brought nothing, after `seconds`: what it tells of how long loading takes is
        nothing either, but it was waited for.
        """
        self._owe(seconds)
        self._judge()

    def observe_sample(self, num_chunks: int, seconds: float) -> None:
        """Note what a sample took, in place of what loading took before the gate closed."""
        self._load = Average()
        self._load.add(num_chunks, seconds)
        self._needs_sample = self._is_guess = False
        self._judge()

    def observe_compute(self, num_chunks: int, seconds: float) -> None:
        """Note that a request's `num_chunks` were computed `seconds` after it was scheduled."""
        self._compute.add(num_chunks, seconds)
        self._owe(-FREE_RATIO * seconds)
        self._judge()

    def observe_lookup(self, seconds: float) -> None:
        """Note how long L2 took to tell what it holds."""
        self._lookup.add(1, seconds)
        self._owe(seconds)
        self._judge()

    def take_sample(self) -> bool:
        """Whether to load a sample now; says so once per pause, and only while closed."""
        now = self._clock()
        if self.is_open or self._mode != "auto" or now < self._sample_at:
            return False
        self._sample_at = now + self._sample_pause
        return True

    def take_first_sample(self) -> bool:
        """Whether to load what was just stored: it is closed, and nothing was loaded yet. Says so once."""
        is_due = self._mode == "auto" and self._is_guess and not self._is_open
        self._is_guess = self._is_guess and not is_due
        return is_due

    def _owe(self, seconds: float) -> None:
        """Credit is bounded like debt, so that a good past does not pay for a bad hour."""
        if self._is_open:
            self._debt = max(self._debt + seconds, -self._allowed_debt)

    def _judge(self) -> None:
        load, compute = self._load.value, self._compute.value
        now = self._clock()
        is_slower = load is not None and compute is not None and load > compute
        if self._is_open and (is_slower or self._debt > self._allowed_debt):
            self._needs_sample = not is_slower
            self._is_open = False
            lasted = now - self._opened_at > 2 * self._sample_pause
            pause = FIRST_SAMPLE_SECONDS if lasted else 2 * self._sample_pause
            self._sample_pause = min(pause, LONGEST_SAMPLE_SECONDS)
            self._sample_at = now + self._sample_pause
        elif self._is_open or self._needs_sample or load is None or compute is None:
            return
        elif load < REOPEN_RATIO * compute:
            self._debt = 0.0
            self._is_open = True
            self._opened_at = now
