"""What the demo shows in the end, and what must be true of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypertier import figures
from hypertier.lab.measuring import Measurement


@dataclass(frozen=True)
class Row:
    """One request: how it is called, where its tokens should come from, and what was measured."""

    request: str
    expected_source: str
    measured: Measurement


def table(rows: Sequence[Row]) -> list[str]:
    """The rows as aligned text under a heading."""
    cells = [("request", "served by", "hit source", "cached tokens", "TTFT")]
    cells += [
        (
            row.request,
            row.measured.served_by,
            row.measured.hit_source,
            f"{row.measured.cached_tokens} of {row.measured.answer.prompt_tokens}",
            f"{row.measured.ttft_seconds:.2f} s",
        )
        for row in rows
    ]
    return list(figures.table(cells, ruled=True))


def broken_promises(rows: Sequence[Row]) -> Iterator[str]:
    """Say what did not come out as it must; nothing when all is well.

    Answers from the cache must be the same, token by token. The first row's answer is compared with none: a
    prompt computed in one piece may differ in the last digit from one of which only the end is computed.
    """
    for row in rows:
        if row.measured.hit_source != row.expected_source:
            yield (
                f"request {row.request}: the hit source is {row.measured.hit_source}; "
                f"expected {row.expected_source}"
            )
    first, last = rows[0].measured, rows[-1].measured
    if last.ttft_seconds >= first.ttft_seconds:
        yield (
            f"request {rows[-1].request}: its TTFT, {last.ttft_seconds:.2f} s, is not below "
            f"{first.ttft_seconds:.2f} s, that of request {rows[0].request}"
        )
    if len({row.measured.answer.text for row in rows[1:]}) > 1:
        yield "the answers to one prompt differ: " + ", ".join(repr(row.measured.answer.text) for row in rows)
