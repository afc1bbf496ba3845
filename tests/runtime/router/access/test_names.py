"""What is found by its quotes is what the pattern itself finds, however many quotes there are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.access.names import FAR_BYTES, HOPS, SHORT_BYTES, search

PATTERN = re.compile(rb'"(?:ab|\\b)c"')
PIECES = st.sampled_from(
    [b'"', b'"abc"', b'"\\bc"', b'"ab', b'"a', b'""', b"abc", b"x" * SHORT_BYTES, b'" ' * HOPS]
)


@given(st.lists(PIECES, max_size=12).map(b"".join), st.sampled_from([bytes, bytearray]), st.data())
def test_what_is_found_is_what_the_pattern_finds(text: bytes, kind: type, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))

    found = search(PATTERN, b"a\\", kind(text), begin, end)

    expected = PATTERN.search(text, begin, end)
    assert (found and found.span()) == (expected and expected.span())


@pytest.mark.parametrize("gap", [1, FAR_BYTES - 1, FAR_BYTES, 2 * FAR_BYTES])
def test_a_name_behind_many_quotes_is_found(gap: int) -> None:
    num_quotes = max(3 * HOPS, SHORT_BYTES // gap)
    text = (b'"' + b"x" * (gap - 1)) * num_quotes + b'"abc"'

    found = search(PATTERN, b"a", text, 0, len(text))

    assert found is not None
    assert found.end() == len(text)
