"""A bounded folder that captured lines wait in until they are carried to S3."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

ALL_TRAFFIC = "AllTraffic"  # SageMaker's name of the only variant
TENANT = "tenant="  # and its name
SUFFIX = ".jsonl"
LOOK_SECONDS = 5.0


def variant_of(tenant: str) -> str:
    """The folder of a tenant's files, where SageMaker has that of a variant; a name of no other folder."""
    return f"{TENANT}{quote(tenant, safe='')}" if tenant else ALL_TRAFFIC


class Spool:
    """Files of one tenant's lines each, `VARIANT/yyyy/mm/dd/hh/mm-ss-mmm-ID.jsonl` as SageMaker has them.

    How much lies there is looked up at most once in `LOOK_SECONDS`, and what is added is counted in between:
    other processes that add to the folder may take it beyond `max_bytes` for so long. `now` is a clock.
    """

    def __init__(self, folder: Path, max_bytes: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._now = now
        self._num_bytes = 0
        self._looked_at = -math.inf

    def check(self) -> None:
        """Leave nothing behind where files can be made. Raises OSError where they can't."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        tried = self._folder / f".{uuid4()}"
        tried.touch(mode=0o600)
        tried.unlink()

    def write(self, tenant: str, at: float, lines: Sequence[bytes]) -> bool:
        """Add a file, whole or not at all; False where there is no room. Raises OSError."""
        content = b"".join(lines)
        now = self._now()
        if now - self._looked_at >= LOOK_SECONDS:
            self._num_bytes, self._looked_at = self.num_bytes(), now
        if self._num_bytes + len(content) > self._max_bytes:
            return False
        moment = datetime.fromtimestamp(at, UTC)
        folder = self._folder / variant_of(tenant) / moment.strftime("%Y/%m/%d/%H")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        milliseconds = moment.microsecond // 1000
        name = f"{moment.strftime('%M-%S')}-{milliseconds:03}-{uuid4()}{SUFFIX}"
        unfinished = folder / f".{name}"
        try:
            unfinished.touch(mode=0o600)
            unfinished.write_bytes(content)
            unfinished.rename(folder / name)
        except OSError:  # half of it would fill a disk that is full, and nobody carries it away
            unfinished.unlink(missing_ok=True)
            raise
        self._num_bytes += len(content)
        return True

    def num_bytes(self) -> int:
        """What lies there now."""
        total = 0
        for folder, _, names in os.walk(self._folder):
            for name in names:
                try:
                    total += os.stat(os.path.join(folder, name)).st_size
                except FileNotFoundError:
                    continue  # carried away in between
        return total


def waiting_in(folder: Path) -> Iterator[Path]:
    """The whole files of a folder, by name: within a tenant the oldest first."""
    found = (file for file in folder.rglob(f"*{SUFFIX}") if not file.name.startswith("."))
    yield from sorted(found)
