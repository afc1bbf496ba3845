"""What checks found, as text, as JSON, and as an exit status; and the policy that lets them ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hypertier.doctor.check import Check, Finding, Status

EXIT_CODES: Mapping[Status, int] = {Status.OK: 0, Status.UNTOLD: 2, Status.FAILS: 1}


def exit_code(findings: Iterable[Finding]) -> int:
    """1 where a deployment would fail, else 2 where something could not be told, else 0."""
    codes = {EXIT_CODES[finding.verdict.status] for finding in findings}
    return next((code for code in (1, 2) if code in codes), 0)


def as_text(account: str, region: str, findings: Sequence[Finding], not_asked: Sequence[str]) -> str:
    """A line for each check, what fails last, where one reads first; then what nobody asked."""
    return "\n".join(_lines(account, region, findings, not_asked))


def _lines(account: str, region: str, findings: Sequence[Finding], not_asked: Sequence[str]) -> Iterator[str]:
    yield f"account {account}, {region}"
    for status in EXIT_CODES:
        for finding in findings:
            verdict = finding.verdict
            if verdict.status is status:
                fix = f"; {verdict.fix}" if verdict.fix else ""
                yield f"{status.value}: {finding.check}: {verdict.cause}{fix}"
    for line in not_asked:
        yield f"not asked: {line}"
    counts = {status: sum(found.verdict.status is status for found in findings) for status in Status}
    yield ", ".join(f"{count} {status.value}" for status, count in counts.items())


def as_data(
    account: str, region: str, findings: Sequence[Finding], not_asked: Sequence[str]
) -> dict[str, Any]:
    """The same for programs."""
    return {
        "account": account,
        "region": region,
        "checks": [
            {
                "check": finding.check,
                "status": finding.verdict.status.value,
                "cause": finding.verdict.cause,
                "fix": finding.verdict.fix or None,
            }
            for finding in findings
        ],
        "notAsked": list(not_asked),
    }


def policy_of(checks: Iterable[Check]) -> dict[str, Any]:
    """The least IAM policy under which every check can be told."""
    actions: dict[str, set[str]] = {}
    for check in checks:
        for asked in check.may_ask:
            actions.setdefault(asked.resource, set()).add(asked.action)
    # Where all resources are named, naming some too would only be longer.
    everywhere = actions.get("*", set())
    by_actions: dict[tuple[str, ...], list[str]] = {}
    for resource, allowed in actions.items():
        named = allowed if resource == "*" else allowed - everywhere
        if named:
            by_actions.setdefault(tuple(sorted(named)), []).append(resource)
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": list(names), "Resource": sorted(resources)}
            for names, resources in sorted(by_actions.items())
        ],
    }
