"""How a verification is told: to people, to programs, and as series of CloudWatch."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from hypertier.figures import table
from hypertier.verification.answer import told
from hypertier.verification.checks import FAILED, UNTOLD
from hypertier.verification.verify import Asked, Report

WIDTH = 100
VERDICTS = {0: "All checks passed.", 1: "Something failed.", 2: "Nothing failed, but not all could be told."}


def lines(report: Report) -> Iterator[str]:
    """The requests as a table, the checks below, and a verdict."""
    yield f"{report.url}, {report.model or 'no model'}, {report.seconds:.1f} s"
    if report.asked:
        yield ""
        rows = [_cells(number, asked) for number, asked in enumerate(report.asked, start=1)]
        yield from table([("request", "replica", "cached tokens", "TTFT"), *rows])
    yield ""
    for check in report.checks:
        head = f"{check.result:<17}  {check.name:<11}  "
        blank = " " * len(head)
        yield from textwrap.wrap(told(check.why), WIDTH, initial_indent=head, subsequent_indent=blank)
        if check.to_do:
            yield from textwrap.wrap(
                f"-> {check.to_do}", WIDTH, initial_indent=blank, subsequent_indent=f"{blank}   "
            )
    yield ""
    yield VERDICTS[report.status]


def as_dict(report: Report) -> dict[str, Any]:
    """The same for programs."""
    return {
        "url": report.url,
        "model": report.model,
        "status": report.status,
        "seconds": round(report.seconds, 3),
        "requests": [
            {
                "why": asked.why,
                "request_id": asked.request_id,
                "replica": asked.answer.replica,
                "prompt_tokens": asked.answer.prompt_tokens,
                "cached_tokens": asked.answer.cached_tokens,
                "ttft_seconds": round(asked.answer.ttft_seconds, 4),
            }
            for asked in report.asked
        ],
        "checks": [
            {"check": check.name, "result": check.result, "why": check.why, "to_do": check.to_do}
            for check in report.checks
        ],
    }


def values(report: Report) -> Mapping[str, float]:
    """Each series' value, by its name in CloudWatch; what is not known has none."""
    results = [check.result for check in report.checks]
    found = {
        "VerifyFailed": float(results.count(FAILED)),
        "VerifyUntold": float(results.count(UNTOLD)),
        "VerifySeconds": report.seconds,
    }
    again = [asked.answer for asked in report.asked if asked.why == "again"]
    if report.asked:
        found["VerifyTtft"] = report.asked[0].answer.ttft_seconds
    if again:
        best = max(again, key=lambda answer: answer.cached_tokens or 0)
        found["VerifyCachedTtft"] = best.ttft_seconds
        if best.cached_tokens is not None and best.prompt_tokens:
            found["VerifyCachedRatio"] = min(1.0, best.cached_tokens / best.prompt_tokens)
    return found


def _cells(number: int, asked: Asked) -> tuple[str, ...]:
    answer = asked.answer
    cached = "not told" if answer.cached_tokens is None else str(answer.cached_tokens)
    return (
        f"{number} {asked.why}",
        answer.replica or "not told",
        f"{cached} of {answer.prompt_tokens or 'unknown'}",
        f"{answer.ttft_seconds:.2f} s",
    )
