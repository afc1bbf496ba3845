"""The file behind shared memory, so that another process can map the same bytes."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

POPULATE_BYTES = 8 * 1024 * 1024
MADV_POPULATE_READ = 22  # of pages in shared memory, as good for writing; and far cheaper


@dataclass(frozen=True)
class Mapping:
    """A range of addresses that is backed by a file, shared with whoever maps that, too.

    https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html (read 2026-12-01)
    """

    start: int
    end: int
    offset: int
    device: int
    inode: int
    path: str


def shared_file(view: memoryview) -> tuple[int, int] | None:
    """Find the file behind a writable, contiguous view, deleted or not.

    Returns:
        A descriptor, which is the caller's to close, and where in the file the view begins; None where the
        memory belongs to this process alone.
    """
    anchor = ctypes.c_char.from_buffer(view)
    address = ctypes.addressof(anchor)
    del anchor
    mapping = find_mapping(Path("/proc/self/maps").read_text(), address)
    if mapping is None:
        return None
    descriptor = open_file(mapping)
    if descriptor is None:
        return None
    offset = mapping.offset + address - mapping.start
    if os.fstat(descriptor).st_size < offset + len(view):
        os.close(descriptor)
        return None
    return descriptor, offset


def find_mapping(maps: str, address: int) -> Mapping | None:
    """Find, in the text of /proc/PID/maps, what shared file is mapped at an address."""
    for line in maps.splitlines():
        addresses, permissions, offset, device, inode, *path = line.split(maxsplit=5)
        start, end = (int(each, 16) for each in addresses.split("-"))
        if start <= address < end:
            if permissions[3] != "s" or not path:
                return None
            major, minor = (int(each, 16) for each in device.split(":"))
            return Mapping(start, end, int(offset, 16), os.makedev(major, minor), int(inode), path[0])
    return None


def open_file(mapping: Mapping) -> int | None:
    """Open a mapped file for reading and writing: by its path, or as something that is open already."""
    paths = [mapping.path, *(f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))]
    for path in paths:
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) == (mapping.device, mapping.inode):
                return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # deleted, or closed meanwhile
    return None


def new_shared(name: str, num_bytes: int) -> int:
    """A descriptor of a new file in memory, all of which it has already.

    Raises:
        OSError: there is no memory left. A file that is only as long as this would tell nothing now, and end
            whoever touches it later (SIGBUS).
    """
    descriptor = os.memfd_create(name)
    try:
        os.posix_fallocate(descriptor, 0, num_bytes)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def map_shared(descriptor: int, offset: int, num_bytes: int) -> memoryview:
    """Map a part of a file."""
    start = mapped_from(offset)
    mapped = mmap.mmap(descriptor, offset - start + num_bytes, mmap.MAP_SHARED, offset=start)
    return memoryview(mapped)[offset - start :]


def mapped_from(offset: int) -> int:
    """Where in the file `map_shared` begins, to have `offset` in it."""
    return offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY


def populate(view: memoryview, descriptor: int, offset: int) -> None:
    """Enter what `map_shared` has mapped into this process's page tables, step by step.

    Else each first use of a page is a fault, and these cost more than to receive what is written there.
    Memory that the file has not got yet is left alone: who maps it for a device may want it nearby.
    """
    mapped, start = view.obj, mapped_from(offset)
    assert isinstance(mapped, mmap.mmap)
    for begin, end in parts_with_data(descriptor, start, start + len(mapped)):
        for step in range(begin, end, POPULATE_BYTES):
            try:
                mapped.madvise(MADV_POPULATE_READ, step - start, min(POPULATE_BYTES, end - step))
            except OSError:
                return  # before Linux 5.14
            time.sleep(0)  # let go of the interpreter's lock


def parts_with_data(descriptor: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a range of a file that have memory."""
    while begin < end:
        try:
            begin = os.lseek(descriptor, begin, os.SEEK_DATA)
            hole = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError:
            return  # there are none behind
        if begin < end:
            yield begin, min(hole, end)
        begin = hole
