"""The daemon's segment of shared memory, read through a descriptor.

It is read and not mapped: a mapping of a segment that the daemon cuts short would end the engine (SIGBUS),
and Python's own class for shared memory would remove the daemon's segment at exit. A read copies straight
into the target and leaves the interpreter to others meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypertier.errors import TierUnavailableError
from hypertier.tier.backends.resp_reader import PART_BYTES


@dataclass(frozen=True)
class Identity:
    """Which segment lies under a path: another one after the daemon made it anew."""

    device: int
    inode: int


@dataclass(frozen=True)
class Piece:
    """A part of a value within the segment, in bytes."""

    offset: int
    length: int


class Segment:
    """The segment under a path, opened when first needed, and anew when another one has taken its place."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._identity: Identity | None = None
        self._descriptor = -1

    def identity(self) -> Identity:
        """Which segment there is now.

        Raises:
            TierUnavailableError: there is none.
        """
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise TierUnavailableError(f"{self._path}: {error.strerror}") from error
        return Identity(status.st_dev, status.st_ino)

    def copy(
        self,
        wanted: Identity,
        pieces: Sequence[Piece],
        buffers: Sequence[memoryview],
        tell: Callable[[memoryview], None] | None = None,
    ) -> bool:
        """Fill `buffers` from the pieces, which are as long together; `tell` hears of each part then.

        Returns whether they were: not when the segment is another one by now, or shorter.
        """
        descriptor = self._open(wanted)
        if descriptor is None:
            return False
        try:
            left = list(buffers)
            return all(read_piece(descriptor, piece, left, tell) for piece in pieces)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor, self._identity = -1, None

    def _open(self, wanted: Identity) -> int | None:
        """A descriptor of the caller's own, so that nobody closes it meanwhile."""
        with self._lock:
            if self._identity != wanted:
                try:
                    descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError as error:
                    raise TierUnavailableError(f"{self._path}: {error.strerror}") from error
                status = os.fstat(descriptor)
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                self._descriptor, self._identity = descriptor, Identity(status.st_dev, status.st_ino)
            return os.dup(self._descriptor) if self._identity == wanted else None


def read_piece(
    descriptor: int, piece: Piece, left: list[memoryview], tell: Callable[[memoryview], None] | None = None
) -> bool:
    """Read one piece into what is left of the buffers; returns whether all of it was there."""
    offset, length = piece.offset, piece.length
    while length and left:
        target = left[0][: min(length, PART_BYTES) if tell else length]
        count = os.preadv(descriptor, [target], offset)
        if count == 0:
            return False
        if tell:
            tell(target[:count])
        offset += count
        length -= count
        left[0] = left[0][count:]
        if not left[0]:
            left.pop(0)
    return length == 0
