"""A check asks AWS questions one after another and ends in a verdict; it does no I/O, so it is pure.

It is a generator: it yields questions and is sent what AWS said, None where there is no such thing. Where AWS
refuses to say, whoever runs it ends it (`running`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Said = Mapping[str, Any]
"""An answer of AWS's, as boto3 gives it; of a paginated call with all pages' entries in one list."""

# Operations whose permission has another name than they have.
_ACTION_PREFIXES = {"service-quotas": "servicequotas"}
_ACTIONS = {"ListObjectsV2": "ListBucket"}


@dataclass(frozen=True, slots=True)
class Question:
    """One read-only call: `operation` as AWS's API reference spells it, `resource` as a policy may narrow it.

    `region` is the deployment's where it is None. All pages of an answer are asked for, unless `first_page`
    is enough.
    """

    service: str
    operation: str
    written: str
    resource: str = "*"
    region: str | None = None
    first_page: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """What is sent."""
        parameters: dict[str, Any] = json.loads(self.written)
        return parameters

    @property
    def action(self) -> str:
        """The IAM action that allows it."""
        operation = _ACTIONS.get(self.operation, self.operation)
        return f"{_ACTION_PREFIXES.get(self.service, self.service)}:{operation}"


def question(
    service: str,
    operation: str,
    *,
    resource: str = "*",
    region: str | None = None,
    first_page: bool = False,
    **parameters: Any,
) -> Question:
    """The question with these parameters; equal ones are asked once."""
    written = json.dumps(parameters, sort_keys=True)
    return Question(service, operation, written, resource, region, first_page)


class Status(StrEnum):
    """How a check ends."""

    OK = "ok"
    FAILS = "fails"
    UNTOLD = "could not be told"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found: why, and what to do about it."""

    status: Status
    cause: str
    fix: str = ""


Talk = Generator[Question, Said | None, Verdict]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report. `may_ask` has every question that it can put, `*` for what it learns."""

    name: str
    talk: Callable[[], Talk]
    may_ask: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A check with what came of it."""

    check: str
    verdict: Verdict


def ok(cause: str) -> Verdict:
    """Nothing would go wrong here."""
    return Verdict(Status.OK, cause)


def fails(cause: str, fix: str) -> Verdict:
    """A deployment would fail by this."""
    return Verdict(Status.FAILS, cause, fix)


def untold(cause: str, fix: str) -> Verdict:
    """Whether it would can't be known."""
    return Verdict(Status.UNTOLD, cause, fix)
