"""Every error that hypertier raises on purpose.

HypertierError                 anything below; the command line prints it and exits with 1
├── ConfigError                a setting that cannot work
│   └── ListenError            an address where nothing can listen
├── ManifestError              a file that cannot be read as what it claims to be
├── MissingPackageError        an optional part of hypertier is not installed
├── CredentialsError           AWS can't be asked with the credentials that there are
├── DeploymentError            an app could not be deployed to the emulator
├── LabError                   a process of the lab did not do its work
├── ScrapeError                a replica's /metrics could not be read; the exporter counts it
├── PublishError               CloudWatch did not take the data; the exporter counts it
├── PeerError                  a router beside this one said what can't be; ends the connection, counted
├── WorkerError                a worker process of a router did not start; what it said
├── KvEventError               an engine's KV events can't be read; the replica is forgotten and heard anew
├── JwksError                  the keys of JWTs can't be had; counted, and those known stay
├── HttpError                  no whole answer to a request of our own; becomes the error of whoever asked
├── CompileError               the router's hot modules can't be compiled; it runs as it is
├── ExplainError               a router can't say what it decided
├── AnswerError                an endpoint did not answer as it should; becomes a check that failed
├── BatchError                 a batch's file can't be read, or its answers can't be kept
├── ModelListError             a replica did not say which models it serves; counted, it may serve any
├── ApiServerError             Kubernetes' API did not answer as it should; counted, and the last list stays
├── TokenizeError              a prompt's tokens can't be had; counted, and what was sent where decides
├── VerifyError                an engine's blocks are not what it tells; counted, and what was sent decides
├── SizeError                  an engine does not tell how much it caches; counted, and asked again
└── TierError                  L2 did not answer as it should; becomes a miss in `tier.tier`
    ├── TierUnavailableError   no connection, a time-out, or a refusal
    │   └── TierPartError      one server of a cluster does not answer; the others may
    └── TierProtocolError      an answer that the protocol does not allow
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from datetime import date
from pathlib import PurePath
from typing import Any

MAX_SHOWN_CHARACTERS = 200


class HypertierError(Exception):
    """The root of every error that hypertier raises on purpose."""


class ConfigError(HypertierError, ValueError):
    """A setting that cannot work: names it, what it was, what would work."""

    def __init__(self, setting: str, got: Any, expected: str) -> None:
        super().__init__(f"{setting} is {shown(got)}; expected {expected}")
        self.setting = setting
        self.got = got
        self.expected = expected


class ListenError(ConfigError):
    """An address that is in use, is none of this machine's, or is not for this user; says which."""

    def __init__(self, setting: str, address: str, error: OSError) -> None:
        # Where it has a number of the system's, asyncio's text repeats the address before what that says.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else said(error)
        super().__init__(setting, address, f"an address of this machine that is free ({why})")


def shown(got: Any) -> str:
    """A value as one types it, or `not set` or `empty`; cut off where nobody would read on.

    What is no value of a file or a command line is told by its type, as it has no spelling.
    """
    if got is None:
        return "not set"
    if isinstance(got, str | bytes | Collection) and not got:
        return "empty"
    text = ""
    for piece in _spelled(got):
        text += piece
        if len(text) > MAX_SHOWN_CHARACTERS:
            return f"{text[:MAX_SHOWN_CHARACTERS]}…"
    return text


def _spelled(got: Any) -> Iterator[str]:
    """Piece by piece: YAML's aliases make values that have no end, or are longer than any memory."""
    match got:
        case None:
            yield "null"
        case bool():
            yield "true" if got else "false"
        case str() | bytes() | float():
            yield repr(got)
        case int():
            # Python writes no number of more than 4,300 digits.
            yield repr(got) if got.bit_length() < 4096 else "a number of thousands of digits"
        case PurePath() | date():
            yield str(got)
        case Mapping():
            yield from _listed("{", got, "}")
        case Sequence():
            yield from _listed("[", got, "]")
        case Set():
            yield from _listed("[", sorted(got, key=str), "]")
        case _:
            cls = got if isinstance(got, type) else type(got)
            kind = "the class" if cls is got else "an object of"
            yield f"{kind} {cls.__module__}.{cls.__qualname__}"


def _listed(begin: str, entries: Mapping[Any, Any] | Sequence[Any], end: str) -> Iterator[str]:
    yield begin
    for number, entry in enumerate(entries):
        yield ", " if number else ""
        if isinstance(entries, Mapping):
            yield from (f"{entry}: ",) if entry else (*_spelled(entry), ": ")
            entry = entries[entry]
        yield from _spelled(entry)
    yield end


def said(error: Exception) -> str:
    """What an error of the system's says to people: `Connection refused`. Of another its name, too."""
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}"


class ManifestError(HypertierError):
    """A file that cannot be read as what it claims to be: names the file, the place, and what would work.

    `line` and `column` count from 1; None where the file as a whole is meant, or the line.
    """

    def __init__(self, file: str, line: int | None, problem: str, column: int | None = None) -> None:
        place = [str(number) for number in (line, column) if number is not None]
        super().__init__(f"{':'.join([file, *place])}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem


class MissingPackageError(HypertierError):
    """An optional part is not installed: names what needs it and the command that installs it."""

    def __init__(self, needed_by: str, package: str, extra: str | None = None) -> None:
        bringing = f"hypertier[{extra}]" if extra else package
        super().__init__(
            f"{needed_by} needs the package {package}; install it with: pip install '{bringing}'"
        )
        self.package = package
        self.extra = extra


class CredentialsError(HypertierError):
    """AWS can't be asked: no credentials, or none that it takes; says which."""


class DeploymentError(HypertierError):
    """An app could not be deployed to the emulator: names the stack, the resource, and what went wrong."""


class LabError(HypertierError):
    """A process of the lab did not do its work: names it, what happened, and where its log is."""


class ScrapeError(HypertierError):
    """A replica's /metrics could not be read. Reads on from the replica's name: "... answered with 500"."""


class PublishError(HypertierError):
    """CloudWatch did not take the data points: says how many, and why."""


class PeerError(HypertierError):
    """A router beside this one said what can't be. `cause` is the word under which it is counted."""

    def __init__(self, cause: str, problem: str) -> None:
        super().__init__(problem)
        self.cause = cause


class WorkerError(HypertierError):
    """A worker process of a router did not start: what it said, or how it ended."""


class KvEventError(HypertierError):
    """An engine's KV events can't be read. `cause` is the word under which it is counted."""

    def __init__(self, cause: str, problem: str) -> None:
        super().__init__(problem)
        self.cause = cause


class JwksError(HypertierError):
    """The keys that JWTs are signed with can't be had: says where they were looked for, and why not."""


class HttpError(HypertierError):
    """No whole answer to a request of our own. Reads on from whom was asked: "... sent more than 5 bytes"."""


class CompileError(HypertierError):
    """The router's hot modules can't be compiled: the compiler, or what it says."""


class ExplainError(HypertierError):
    """A router can't say what it decided: says what it answered."""


class AnswerError(HypertierError):
    """An endpoint did not answer as it should: says what came, and in `to_do` what helps.

    With `is_fault` the endpoint is to blame; else it may be well, and only this could not be asked.
    """

    def __init__(self, problem: str, to_do: str = "", *, is_fault: bool = True) -> None:
        super().__init__(problem)
        self.to_do = to_do
        self.is_fault = is_fault


class BatchError(HypertierError):
    """A batch can't be sent or kept: names the file, and the line where one is at fault."""


class ModelListError(HypertierError):
    """A replica did not say which models it serves: says what came instead."""


class ApiServerError(HypertierError):
    """Kubernetes' API did not answer as it should. `cause` is the word under which it is counted."""

    def __init__(self, cause: str, problem: str) -> None:
        super().__init__(problem)
        self.cause = cause


class TokenizeError(HypertierError):
    """A prompt's tokens can't be had. `cause` is the word under which it is counted."""

    def __init__(self, cause: str, problem: str) -> None:
        super().__init__(problem)
        self.cause = cause


class VerifyError(HypertierError):
    """An engine's KV events can't be believed. `cause` is the word under which it is counted."""

    def __init__(self, cause: str, problem: str) -> None:
        super().__init__(problem)
        self.cause = cause


class SizeError(HypertierError):
    """The size of an engine's cache can't be read. `cause` is the word under which it is counted."""

    def __init__(self, cause: str, problem: str) -> None:
        super().__init__(problem)
        self.cause = cause


class TierError(HypertierError):
    """L2 did not answer as it should. Never leaves the tier: it becomes a counted miss."""


class TierUnavailableError(TierError):
    """No connection to L2, a time-out, or a refusal."""


class TierPartError(TierUnavailableError):
    """One server of a cluster does not answer: its keys are misses, those of the others are not."""


class TierProtocolError(TierError):
    """L2 answered in a way that its protocol does not allow."""
