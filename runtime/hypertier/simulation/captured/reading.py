"""Lines of captured files, with the place of each; a folder's files are those below it, by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import unquote

from hypertier.errors import ManifestError
from hypertier.router.capture.spool import SUFFIX, TENANT, waiting_in

MAX_LINE_BYTES = 64 * 2**20
"""A request and an answer of 10 MiB each, captured, are 30 MB."""
STDIN = "-"


class Line(NamedTuple):
    """`text` is None where it is too long to be one."""

    file: str
    number: int
    tenant: str
    text: bytes | None


def read_lines(sources: Iterable[str]) -> Iterator[Line]:
    """The lines of all files that are not blank; `-` is what stands on stdin.

    Raises:
        ManifestError: a file can't be read, or a folder has none.
    """
    for source in sources:
        if source == STDIN:
            yield from _of_file(sys.stdin.buffer, source, "")
            continue
        for path in _files(Path(source)):
            try:
                with path.open("rb") as file:
                    yield from _of_file(file, str(path), tenant_of(path))
            except OSError as error:
                raise ManifestError(str(path), None, f"cannot be read: {error.strerror}") from error


def tenant_of(path: Path) -> str:
    """Whose requests a file of the router's holds; empty where no folder says so."""
    found = (part for part in path.parts[:-1] if part.startswith(TENANT))
    return unquote(next(found, "").removeprefix(TENANT))


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        return [path]
    found = list(waiting_in(path))
    if not found:
        raise ManifestError(str(path), None, f"holds no file *{SUFFIX}")
    return found


def _of_file(file: BinaryIO, name: str, tenant: str) -> Iterator[Line]:
    number = 0
    while text := file.readline(MAX_LINE_BYTES):
        number += 1
        is_whole = len(text) < MAX_LINE_BYTES or text.endswith(b"\n")
        if not is_whole:
            while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
        if text.strip():
            yield Line(name, number, tenant, text if is_whole else None)
