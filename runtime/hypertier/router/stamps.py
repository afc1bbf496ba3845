"""Whether a file is another than the one that was read."""

from __future__ import annotations

import os
import ssl

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
