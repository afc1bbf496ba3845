"""A comparison as one HTML page: figures as a table and two plots, with nothing loaded from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from hypertier.comparison.compare import QUANTILES, Report
from hypertier.comparison.report import NAMES, VERDICTS, cells, heading, heads
from hypertier.comparison.statistics import Ratio

_WIDTH, _LEFT, _RIGHT, _ROW = 760, 190, 130, 26
_STYLE = (
    "body{font:15px system-ui,sans-serif;color:#1f2933;max-width:800px;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.3em .9em;border-bottom:1px solid #cbd2d9;text-align:left}"
    "svg{max-width:100%}svg text{font:13px system-ui,sans-serif;fill:#1f2933}"
    ".lower{stroke:#05603a;fill:#05603a}.higher{stroke:#b42318;fill:#b42318}.unsure{stroke:#616e7c;fill:#616e7c}"
)


def page(report: Report, limits: Sequence[str] = ()) -> str:
    """The page; `limits` are the lines that say which limits were kept."""
    said = "".join(f"<li>{escape(line)}</li>" for line in (*limits, *report.failures))
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Comparison of strategies</title>'
        f"<style>{_STYLE}</style>\n<h1>Comparison of strategies</h1>\n<p>{escape(heading(report))}</p>\n"
        f"{_table([heads(), *map(cells, report.figures)])}\n"
        f"<h2>Time to the first token, medians over rounds</h2>\n{_times(report)}\n"
        f"<h2>Over {escape(report.figures[0].strategy)}, with the range that holds it with 95 %</h2>\n"
        f"{_ratios(report)}\n"
        + (f"<h2>Limits and failures</h2>\n<ul>{said}</ul>\n" if said else "")
        + "</html>\n"
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = [[escape(cell) for cell in row] for row in rows]
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body]
    return (
        "<table><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>" + "".join(lines) + "</table>"
    )


def _times(report: Report) -> str:
    rows = [(each.strategy, name, each.seconds[name]) for each in report.figures for name in QUANTILES]
    longest = max(seconds for *_, seconds in rows) or 1.0
    drawn = [
        _label(number, f"{strategy} {NAMES[name]}", f"{seconds:.3f} s")
        + f'<rect x="{_LEFT}" y="{_ROW * number + 5}" height="{_ROW - 10}" '
        f'width="{_span() * seconds / longest:.1f}" fill="{"#9fb3c8" if name == "ttft_p50" else "#486581"}"/>'
        for number, (strategy, name, seconds) in enumerate(rows)
    ]
    return _svg(len(rows), drawn)


def _ratios(report: Report) -> str:
    rows = [(each.strategy, name, each.ratios[name]) for each in report.figures[1:] for name in QUANTILES]
    reach = 1.1 * max(0.1, *(abs(math.log(end)) for *_, ratio in rows for end in (ratio.low, ratio.high)))
    drawn = [
        f'<line x1="{_place(1, reach):.1f}" x2="{_place(1, reach):.1f}" y1="0" y2="{_ROW * len(rows)}" '
        'stroke="#9aa5b1" stroke-dasharray="4 3"/>',
        *(
            _label(number, f"{strategy} {NAMES[name]}", f"{ratio.mean:.2f}, {VERDICTS[ratio.verdict]}")
            + "".join(_range(number, ratio, reach))
            for number, (strategy, name, ratio) in enumerate(rows)
        ),
    ]
    return _svg(len(rows), drawn)


def _range(number: int, ratio: Ratio, reach: float) -> Iterator[str]:
    y, kind = _ROW * number + _ROW // 2, ratio.verdict if ratio.verdict in ("lower", "higher") else "unsure"
    ends = [_place(end, reach) for end in (ratio.low, ratio.high)]
    yield f'<line class="{kind}" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y}" y2="{y}" stroke-width="2"/>'
    yield f'<circle class="{kind}" cx="{_place(ratio.mean, reach):.1f}" cy="{y}" r="5"/>'


def _place(ratio: float, reach: float) -> float:
    """Where a ratio stands, by its logarithm: half as long is as far from 1 as twice as long."""
    return _LEFT + _span() * (math.log(ratio) + reach) / (2 * reach)


def _span() -> int:
    return _WIDTH - _LEFT - _RIGHT


def _label(number: int, left: str, right: str) -> str:
    y = _ROW * number + _ROW // 2 + 5
    return (
        f'<text x="{_LEFT - 10}" y="{y}" text-anchor="end">{escape(left)}</text>'
        f'<text x="{_WIDTH - _RIGHT + 10}" y="{y}">{escape(right)}</text>'
    )


def _svg(num_rows: int, drawn: Sequence[str]) -> str:
    return (
        f'<svg role="img" width="{_WIDTH}" viewBox="0 0 {_WIDTH} {_ROW * num_rows}">'
        + "".join(drawn)
        + "</svg>"
    )
