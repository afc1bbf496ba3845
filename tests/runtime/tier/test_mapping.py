"""Another process can map what this one shares, whatever became of the file's name, and nothing else."""

from __future__ import annotations

import errno
import mmap
import os
import resource
from pathlib import Path

import pytest

from hypertier.tier.mapping import map_shared, new_shared, populate, shared_file

PAGE = mmap.PAGESIZE


def shared_memory(path: Path, num_pages: int = 4) -> memoryview:
    with path.open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, num_pages * PAGE)
        return memoryview(mmap.mmap(file.fileno(), num_pages * PAGE))


def test_new_memory_is_there_before_anybody_touches_it() -> None:
    descriptor = new_shared("new", 3 * PAGE)

    status = os.stat(descriptor)

    os.close(descriptor)
    assert (status.st_size, status.st_blocks * 512) == (3 * PAGE, 3 * PAGE)


def test_memory_that_there_is_not_is_an_error_and_leaves_no_descriptor() -> None:
    before = os.listdir("/proc/self/fd")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PAGE, hard))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            new_shared("large", 2 * PAGE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("start", [0, PAGE, PAGE + 100])
def test_both_see_what_either_writes(tmp_path: Path, start: int) -> None:
    ours = shared_memory(tmp_path / "l1")[start:]

    found = shared_file(ours)
    assert found is not None
    theirs = map_shared(*found, len(ours))
    os.close(found[0])
    theirs[:3] = b"abc"
    ours[-3:] = b"xyz"

    assert ours == theirs
    assert bytes(theirs[:3]) + bytes(ours[-3:]) == b"abcxyz"


def test_a_file_that_lost_its_name_is_found_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "l1"
    ours = shared_memory(path)
    with path.open("r+b"):
        path.unlink()
        found = shared_file(ours)

    assert found is not None
    theirs = map_shared(*found, len(ours))
    os.close(found[0])
    ours[:3] = b"abc"
    assert bytes(theirs[:3]) == b"abc"


def test_memory_of_this_process_alone_is_no_file(tmp_path: Path) -> None:
    with (tmp_path / "private").open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, PAGE)
        private = memoryview(mmap.mmap(file.fileno(), PAGE, mmap.MAP_PRIVATE))

    assert shared_file(memoryview(bytearray(PAGE))) is None
    assert shared_file(private) is None


def test_another_file_under_the_same_name_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "l1"
    ours = shared_memory(path)
    path.unlink()
    path.write_bytes(bytes(4 * PAGE))

    found = shared_file(ours)

    if found is not None:  # the mapping itself keeps a descriptor on some versions of Python
        theirs = map_shared(*found, len(ours))
        os.close(found[0])
        ours[:3] = b"abc"
        assert bytes(theirs[:3]) == b"abc"


def test_what_is_populated_is_written_without_a_fault_and_holes_stay_holes() -> None:
    pages, hole, data = 8192, 16, mmap.ALLOCATIONGRANULARITY
    descriptor = os.memfd_create("l1")
    os.ftruncate(descriptor, data + pages * mmap.PAGESIZE)
    end = data + (pages - hole) * mmap.PAGESIZE
    with mmap.mmap(descriptor, end) as whole:
        whole[:] = bytes(end)  # all but the last pages
    offset = data + 64
    view = map_shared(descriptor, offset, pages * mmap.PAGESIZE - 64)

    populate(view, descriptor, offset)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for page in range(0, end - offset, mmap.PAGESIZE):
        view[page] = 1
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

    assert faults < pages // 64
    assert os.stat(descriptor).st_blocks * 512 == end
    os.close(descriptor)
