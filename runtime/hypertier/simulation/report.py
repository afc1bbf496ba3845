"""From what became of every request to a few numbers, and to text, JSON and a page."""

from __future__ import annotations

import html
import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from hypertier.figures import quantile
from hypertier.simulation.cluster import Outcome


@dataclass(frozen=True, slots=True)
class Summary:
    """What a strategy made of a trace.

    `hit_ratio` is tokens found in any cache per token of input, `hit_ratio_l2` those that came from L2;
    `imbalance_ratio` is the busiest replica's time computing prompts over the mean; `usd_per_million_tokens`
    goes over tokens of input and output, None without a price.
    """

    hit_ratio: float
    hit_ratio_l2: float
    ttft_p50_seconds: float
    ttft_p90_seconds: float
    tokens_per_second: float
    imbalance_ratio: float
    usd_per_million_tokens: float | None


def summarize(outcome: Outcome, usd_per_replica_hour: float | None = None) -> Summary:
    """Sum `outcome` up; it has at least one request."""
    jobs = outcome.jobs
    num_input = sum(job.request.input_tokens for job in jobs)
    num_tokens = num_input + sum(job.request.output_tokens for job in jobs)
    seconds = max(outcome.seconds - jobs[0].request.at, 1e-9)
    waits = [job.first_token_at - job.request.at for job in jobs]
    busy = outcome.busy_seconds
    hours = seconds / 3600 * len(busy)
    return Summary(
        hit_ratio=sum(job.cached_tokens for job in jobs) / num_input,
        hit_ratio_l2=sum(job.l2_tokens for job in jobs) / num_input,
        ttft_p50_seconds=quantile(waits, 0.5),
        ttft_p90_seconds=quantile(waits, 0.9),
        tokens_per_second=num_tokens / seconds,
        imbalance_ratio=max(busy) / statistics.fmean(busy),
        usd_per_million_tokens=(
            None if usd_per_replica_hour is None else hours * usd_per_replica_hour / num_tokens * 1e6
        ),
    )


def as_json(summaries: Mapping[str, Summary]) -> str:
    """`{"strategies": {NAME: {...}}}`, the fields as in `Summary`."""
    return json.dumps(
        {"strategies": {name: asdict(summary) for name, summary in summaries.items()}}, indent=2
    )


COLUMNS = ("hit", "from L2", "TTFT p50", "TTFT p90", "tokens/s", "busiest/mean", "USD/M tokens")


def as_rows(summary: Summary) -> tuple[str, ...]:
    """The fields as a reader wants them, in the order of `COLUMNS`."""
    price = summary.usd_per_million_tokens
    return (
        f"{summary.hit_ratio:.1%}",
        f"{summary.hit_ratio_l2:.1%}",
        f"{summary.ttft_p50_seconds:.3g} s",
        f"{summary.ttft_p90_seconds:.3g} s",
        f"{summary.tokens_per_second:,.0f}",
        f"{summary.imbalance_ratio:.2f}",
        "-" if price is None else f"{price:.3f}",
    )


def as_text(summaries: Mapping[str, Summary]) -> str:
    """A table, one strategy a line."""
    rows = [("strategy", *COLUMNS), *((name, *as_rows(summary)) for name, summary in summaries.items())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


def as_html(summaries: Mapping[str, Summary], title: str) -> str:
    """One page that needs nothing else: the table, and the TTFTs as bars."""
    slowest = max(summary.ttft_p90_seconds for summary in summaries.values()) or 1.0
    head = "".join(f"<th>{html.escape(column)}</th>" for column in ("strategy", *COLUMNS, ""))
    body = "".join(
        "<tr>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in (name, *as_rows(summary)))
        + f'<td class="bars">{_bar(summary.ttft_p90_seconds / slowest, "p90")}'
        + f"{_bar(summary.ttft_p50_seconds / slowest, 'p50')}</td></tr>"
        for name, summary in summaries.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body{font:14px system-ui;margin:2em}td,th{padding:.3em .8em;text-align:right}"
        "td:first-child,th:first-child{text-align:left}.bars{min-width:20em}"
        ".p90,.p50{height:.6em;margin:2px 0}.p90{background:#c33}.p50{background:#36c}</style>"
        f"<h1>{html.escape(title)}</h1><table><tr>{head}</tr>{body}</table>"
        "<p>Bars: time to first token, red for the 90th percentile, blue for the median.</p></html>\n"
    )


def _bar(share: float, kind: str) -> str:
    return f'<div class="{kind}" style="width:{max(share, 0.002):.1%}"></div>'
