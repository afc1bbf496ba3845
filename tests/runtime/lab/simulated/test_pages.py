from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.lab.simulated.pages import Pages

BLOCKS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
STEPS = st.lists(st.tuples(st.sampled_from(["put", "find", "drop"]), BLOCKS), max_size=40)


def fill(pages: Pages, block_hash: bytes) -> None:
    page = pages.put(block_hash)
    assert page is not None
    page[:] = block_hash * len(page)


@settings(deadline=None)
@given(STEPS)
def test_pages_hold_what_was_used_last(steps: list[tuple[str, bytes]]) -> None:
    pages = Pages(num_pages=3, page_bytes=2)
    model: OrderedDict[bytes, None] = OrderedDict()

    for step, block_hash in steps:
        if step == "put":
            fill(pages, block_hash)
            model[block_hash] = None
        elif step == "find":
            pages.find(block_hash)
        else:
            pages.drop(block_hash)
            model.pop(block_hash, None)
        if step != "drop" and block_hash in model:
            model.move_to_end(block_hash)
        while len(model) > 3:
            model.popitem(last=False)

    held = {block_hash: pages.find(block_hash) for block_hash in (b"a", b"b", b"c", b"d", b"e")}
    assert {key: bytes(page) for key, page in held.items() if page is not None} == {
        block_hash: block_hash * 2 for block_hash in model
    }


def test_a_pinned_block_is_not_given_up() -> None:
    pages = Pages(num_pages=2, page_bytes=1)
    fill(pages, b"a")
    pages.pin(b"a")
    fill(pages, b"b")

    fill(pages, b"c")

    assert pages.find(b"a") is not None
    assert pages.find(b"b") is None


def test_nothing_fits_where_all_is_pinned() -> None:
    pages = Pages(num_pages=1, page_bytes=1)
    fill(pages, b"a")
    pages.pin(b"a")

    assert pages.put(b"b") is None

    pages.unpin(b"a")
    assert pages.put(b"b") is not None


def test_clear_leaves_what_is_pinned() -> None:
    pages = Pages(num_pages=2, page_bytes=1)
    fill(pages, b"a")
    fill(pages, b"b")
    pages.pin(b"b")

    pages.clear()

    assert len(pages) == 1
    assert pages.find(b"b") is not None


@pytest.mark.parametrize("num_pages", [0, 2])
def test_pages_tell_how_many_they_are(num_pages: int) -> None:
    assert Pages(num_pages, page_bytes=4).num_pages == num_pages
