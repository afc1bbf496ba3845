"""Where a chunked body ends, held against llhttp, whose word counts."""

from __future__ import annotations

import itertools

import httptools
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.http.chunks import DONE, MALFORMED, NOT_PLAIN, before, read_chunks

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNKS = st.binary(min_size=1, max_size=40).map(lambda data: b"%x\r\n%b\r\n" % (len(data), data))
PLAIN = [b"2\r\nab\r\n", b"0a\r\n0123456789\r\n", b"0\r\n\r\n"]
OTHERS = [b"A;x=1\r\n0123456789\r\n", b"0\r\nT: 1\r\n\r\n", b"2\r\nab", b"00000000001\r\n"]
WRONG = [b"\r\n", b"\n", b"x", b"3\r\nab\r\n", b"-1\r\n", b"+2\r\nab\r\n", b"1_0\r\n"]
PIECES = st.sampled_from([*PLAIN, *OTHERS, *WRONG])


class Parser:
    """llhttp's opinion of a body."""

    def __init__(self) -> None:
        self.is_done = False
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(HEAD)

    def on_message_complete(self) -> None:
        self.is_done = True

    def accepts(self, data: bytes) -> bool:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            return False
        return True


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(at)]


@given(st.lists(CHUNKS, max_size=6), st.lists(st.integers(0, 400), max_size=5))
def test_whole_chunks_are_read_to_their_end(chunks: list[bytes], places: list[int]) -> None:
    left = 0
    for piece in cut(b"".join(chunks) + b"0\r\n\r\n", places):
        assert left >= 0
        left = read_chunks(piece, left)
        if left == NOT_PLAIN:  # a size that is cut in two
            return

    assert left == DONE


@given(st.lists(PIECES, max_size=6).map(b"".join), st.lists(st.integers(0, 100), max_size=4))
def test_what_is_read_is_what_llhttp_reads_and_what_is_not_it_can_read_on(
    data: bytes, places: list[int]
) -> None:
    whole, left = Parser(), 0
    for piece in cut(data, places):
        accepted = whole.accepts(piece)
        was, left = left, read_chunks(piece, left)

        if left == NOT_PLAIN:
            other = Parser()
            assert other.accepts(before(was))
            assert (other.accepts(piece), other.is_done) == (accepted, whole.is_done)
            return
        if left == MALFORMED:
            assert not accepted
            return
        assert accepted
        assert whole.is_done == (left == DONE)
        if left == DONE:
            return
