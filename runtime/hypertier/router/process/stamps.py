"""Whether a file is another than the one that was read, and what to say where it can't be."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable

_OF_ITS_TEXT = (FileNotFoundError, ssl.SSLError)
Stamp = tuple[int, int, int]
"""When a file was changed, in nanoseconds, which one it is, and its size in bytes."""


def stamp(path: str) -> Stamp | None:
    """The file's, behind the links that Kubernetes swaps; None where there is none to see."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def was_unread(error: BaseException) -> bool:
    """Nothing of a file that is there was read: for want of files here, say, or of the right to read it.

    That may pass while the file's stamp stays, so it takes another look. A file that is not there has none.
    """
    causes = (error, error.__cause__)
    return any(isinstance(one, OSError) and not isinstance(one, _OF_ITS_TEXT) for one in causes)


class Complaint:
    """Of what is looked at again and again: each fault is said once, and that it is over.

    `say` tells what is wrong now, `over` that it is not any more, each with a `what` that names it.
    """

    def __init__(self, say: Callable[[str], None], over: Callable[[str], None]) -> None:
        self._say = say
        self._over = over
        self._last: tuple[str, object] | None = None

    def failed(self, what: str, cause: object, of: object = None) -> None:
        """It can't be used, and why; as it is now, which is its stamp (`of`)."""
        now = str(cause), of
        if now != self._last:
            self._last = now
            self._say(f"{what}: {cause}")

    def mended(self, what: str) -> None:
        """It was used."""
        if self._last is not None:
            self._last = None
            self._over(what)
