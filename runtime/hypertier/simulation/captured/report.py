"""What a trace made of captured requests holds, for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from hypertier.figures import table
from hypertier.simulation.captured.lines import LeftOut
from hypertier.simulation.captured.traced import Holds
from hypertier.simulation.trace import BLOCK_TOKENS

MANY_RATIO = 0.2
"""Of requests of which a trace shows too little: from here on it is said."""


def lines(
    holds: Holds, left_out: Mapping[LeftOut, int], num_malformed: int, trace: str | None
) -> Iterator[str]:
    """What it holds, what it lacks, and the command that replays it. It has a request."""
    yield from table([*_rows(holds)])
    for warning in warnings(holds, left_out, num_malformed):
        yield f"warning: {warning}"
    yield f"simulate with: hypertier simulate --trace {shlex.quote(trace or 'FILE')}"


def _rows(holds: Holds) -> Iterator[tuple[str, str]]:
    rate = f", {holds.requests / holds.seconds:.3g} a second" if holds.seconds else ""
    yield "requests", f"{holds.requests:,} within {duration(holds.seconds)}{rate}"
    parties = ((holds.tenants, "tenant"), (holds.models, "model"), (holds.sessions, "chat"))
    yield "from", ", ".join(f"{count:,} {what}{'s' * (count != 1)}" for count, what in parties)
    yield "input", f"{holds.input_tokens:,} tokens{_told(holds.estimated_inputs, holds)}"
    guessed = holds.estimated_outputs + holds.unknown_outputs
    yield "output", f"{holds.output_tokens:,} tokens{_told(guessed, holds)}"
    blocks = f"{holds.seen:,} of {holds.blocks:,} full blocks of {BLOCK_TOKENS} tokens"
    yield "seen before", f"{holds.seen_ratio:.1%}: {blocks}"
    best = f"{holds.best_hit_ratio:.1%} of input tokens would be hits"
    yield "at best", f"{best}, of a cache of {holds.distinct_tokens:,} tokens for all replicas"


def _told(num_estimated: int, holds: Holds) -> str:
    if not num_estimated:
        return ", by the answers' usage"
    per_token = f"{holds.bytes_per_token:.2f} bytes a token"
    return f", estimated for {num_estimated:,} of {holds.requests:,} requests ({per_token})"


def warnings(holds: Holds, left_out: Mapping[LeftOut, int], num_malformed: int) -> Iterator[str]:
    """What the trace does not show."""
    for reason, count in left_out.items():
        yield f"left out {count:,}: {reason}"
    if num_malformed:
        yield f"left out {num_malformed:,} lines that can't be read"
    if holds.unknown_outputs:
        yield (
            f"{holds.unknown_outputs:,} requests have no answer that tells its length: it is the mean of the "
            "others, or max_tokens"
        )
    if holds.continued:
        yield (
            f"{holds.continued:,} requests go on with a response that the engine keeps: what it was is not "
            "in the trace"
        )
    if holds.short > holds.requests * MANY_RATIO:
        yield f"{holds.short:,} requests are shorter than a block: what they share is not in the trace"
    if holds.models > 1:
        yield "simulate has one kind of replica for all models; --model NAME makes a trace of one"


def duration(seconds: float) -> str:
    """For people: `3 h 12 min`, `4 min 5 s`, `2.5 s`."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
