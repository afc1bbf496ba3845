"""A batch's output: a line for each answer, in OpenAI's form, written as soon as it is there.

`{"id": ..., "custom_id": ..., "response": {"status_code", "request_id", "body"}, "error": null}`. A run that
was broken off is gone on with by running it again: what has an answer there is not sent a second time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from hypertier.errors import BatchError

BEGINNING = b'{"id": "'
"""Of every line: a last one without an end is cut off, if it is ours."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a request: the engine's answer, or, where there is no status, why there is none."""

    custom_id: str
    request_id: str
    status: int | None
    body: bytes
    problem: str = ""

    @property
    def is_answer(self) -> bool:
        """It need not be sent again."""
        return self.status == 200

    def line(self) -> bytes:
        """As it stands in a file."""
        response: Mapping[str, Any] | None = None
        if self.status is not None:
            response = {
                "status_code": self.status,
                "request_id": self.request_id,
                "body": _read(self.body),
            }
        error = None if self.is_answer else {"code": _code(self.status), "message": self.problem}
        found = {"id": self.request_id, "custom_id": self.custom_id, "response": response, "error": error}
        return json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def answered(path: Path) -> set[str]:
    """The names of the requests that have an answer in a file; a line that broke off is cut from it.

    Raises:
        BatchError: what stands there is no output of a batch, or can't be read.
    """
    found: set[str] = set()
    try:
        with path.open("rb+") as file:
            end = 0
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    if not line.startswith(BEGINNING[: len(line)]):
                        raise _foreign(f"{path}:{number}")
                    break
                found.add(_name(line, f"{path}:{number}"))
                end += len(line)
            file.truncate(end)
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise BatchError(f"{path} can't be read and written: {error.strerror}") from error
    return found


def _name(line: bytes, place: str) -> str:
    try:
        read = json.loads(line)
        name = read["custom_id"]
        if isinstance(name, str) and read["response"]["status_code"] == 200:
            return name
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise _foreign(place)


def _foreign(place: str) -> BatchError:
    return BatchError(
        f"{place}: this is no answer of a batch; --output names a new file, or one to go on with"
    )


class Output:
    """Two files: answers are added to `path`, and the failures of this run stand in `failures`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failures = path.with_name(f"{path.name}.errors")

    def __enter__(self) -> Output:
        try:
            self._answers = self.path.open("ab")
            self._failed = self.failures.open("wb")
        except OSError as error:
            raise BatchError(f"{error.filename} can't be written: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answers.close()
        self._failed.close()
        if self.failures.stat().st_size == 0:
            self.failures.unlink()

    def add(self, result: Result) -> None:
        """Write a result, so that it is there whatever happens to this process.

        Raises:
            BatchError: it can't be written; what stands there stays.
        """
        file = self._answers if result.is_answer else self._failed
        try:
            file.write(result.line())
            file.flush()
            os.fdatasync(file.fileno())
        except OSError as error:
            raise BatchError(
                f"{self.path} can't be written: {error.strerror}; run it again to go on with what is missing"
            ) from error


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")


def _code(status: int | None) -> str:
    return "no_answer" if status is None else f"status_{status}"
