"""Ids that a client did not ask for are not in what it gets, however they are written and cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.migration.token_ids import WithoutIds, without_ids

TEXT = (
    rb'data: {"prompt_token_ids":[1, 2],"choices":[{"text":"\"token_ids\":[4]","token_ids":[]}]}'
    b"\n\n"
    rb'data: {"prompt_token_ids":null,"choices":[{"token_ids": [33]},{"token_ids" : [44,4]},'
    b'{"token_ids":\n  [\n 5,\n 6]}],"tok'
)
SHOWN = (
    rb'data: {"prompt_token_ids":null,"choices":[{"text":"\"token_ids\":[4]","token_ids":null}]}'
    b"\n\n"
    rb'data: {"prompt_token_ids":null,"choices":[{"token_ids": null},{"token_ids" : null},'
    b'{"token_ids":\n  null}],"tok'
)


@pytest.mark.parametrize("text", [TEXT, b"", b"data: [DONE]\n\n", b'"', b'"prompt_token'], ids=repr)
def test_ids_alone_are_taken_out(text: bytes) -> None:
    assert without_ids(text) == (SHOWN if text == TEXT else text)


@given(st.sets(st.integers(0, len(TEXT))))
def test_wherever_a_text_is_cut_the_same_is_shown(cuts: set[int]) -> None:
    reader = WithoutIds()
    pieces = [TEXT[begin:end] for begin, end in pairwise(sorted({0, *cuts, len(TEXT)}))]

    shown = [reader.read(piece, is_last=number == len(pieces)) for number, piece in enumerate(pieces, 1)]

    assert b"".join(shown) == SHOWN


def test_text_waits_for_no_more_than_a_name_that_is_not_whole() -> None:
    reader = WithoutIds()

    assert reader.read(b'{"choices": "') == b'{"choices": '
    assert reader.read(b'a"}') == b'"a"}'
