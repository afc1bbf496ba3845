"""Figures for people: quantiles, and tables as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of `values`, of which there are some, that at least `share` of them do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def table(rows: Sequence[Sequence[str]], *, ruled: bool = False) -> Iterator[str]:
    """Rows as lines, the columns as wide as what stands in them; `ruled` draws a line below the first."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if ruled and number == 0:
            yield "  ".join("-" * width for width in widths)
