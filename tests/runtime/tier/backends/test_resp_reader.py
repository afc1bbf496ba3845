"""Replies are read the same however the network cuts them, and nonsense is refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.errors import TierProtocolError
from hypertier.tier.backends.resp_reader import ErrorReply, Reply, ReplyReader

REPLIES = st.recursive(
    st.none()
    | st.integers(-(2**62), 2**62)
    | st.binary(max_size=300)
    | st.text("abcXYZ 019", min_size=1, max_size=40).map(ErrorReply),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)


class Stream:
    """Gives its pieces one by one, then ends."""

    def __init__(self, data: bytes, cuts: list[int]) -> None:
        edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        self._pieces = [data[a:b] for a, b in itertools.pairwise(edges)]

    def recv_into(self, target: memoryview) -> int:
        if not self._pieces:
            return 0
        piece = self._pieces.pop(0)
        if len(piece) > len(target):
            self._pieces.insert(0, piece[len(target) :])
            piece = piece[: len(target)]
        target[: len(piece)] = piece
        return len(piece)


def encode(reply: Reply) -> bytes:
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, ErrorReply):
        return b"-%s\r\n" % reply.message.encode()
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, bytes):
        return b"$%d\r\n%s\r\n" % (len(reply), reply)
    return b"*%d\r\n" % len(reply) + b"".join(encode(item) for item in reply)


def depth(reply: Reply) -> int:
    return 1 + max(map(depth, reply), default=0) if isinstance(reply, list) else 0


@settings(deadline=None, max_examples=150)
@given(
    st.lists(REPLIES.filter(lambda reply: depth(reply) <= 4), max_size=5), st.lists(st.integers(0, 10_000))
)
def test_replies_survive_any_cut(replies: list[Reply], cuts: list[int]) -> None:
    reader = ReplyReader(Stream(b"".join(map(encode, replies)), cuts).recv_into)

    read = [reader.read() for _ in replies]

    assert read == replies


@settings(deadline=None, max_examples=100)
@given(
    st.binary(max_size=2000),
    st.integers(0, 2000),
    st.integers(0, 2000),
    st.lists(st.integers(0, 10_000)),
)
def test_values_land_in_the_buffers_or_are_skipped(
    value: bytes, first: int, second: int, cuts: list[int]
) -> None:
    stream = encode(value) + encode(None) + encode(ErrorReply("OOM no")) + encode(7)
    reader = ReplyReader(Stream(stream, cuts).recv_into)
    buffers = [memoryview(bytearray(first)), memoryview(bytearray(second))]

    results = [reader.read_into(buffers) for _ in range(3)]

    assert results == [len(value), None, ErrorReply("OOM no")]
    assert len(value) != first + second or b"".join(buffers) == value
    assert reader.read() == 7


def test_a_large_value_lands_whole() -> None:
    value = bytes(range(256)) * 4096
    reader = ReplyReader(Stream(encode(value) + encode(1), [5, 70_000, 500_001]).recv_into)
    target = bytearray(len(value))

    length = reader.read_into([memoryview(target)])

    assert (length, bytes(target), reader.read()) == (len(value), value, 1)


@pytest.mark.parametrize(
    "stream",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"+OK\n",
        b":12a\r\n",
        b":\r\n",
        b"$-2\r\n",
        b"$3\r\nabcd\r\n",
        b"$9999999999\r\n",
        b"*9999999\r\n",
        b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        b"+" + b"x" * 70_000,
    ],
    ids=lambda stream: repr(stream[:16]),
)
def test_nonsense_is_refused(stream: bytes) -> None:
    reader = ReplyReader(Stream(stream, []).recv_into)

    with pytest.raises(TierProtocolError):
        reader.read()


@pytest.mark.parametrize("stream", [b"", b"+O", b"$5\r\nabc", b"*2\r\n:1\r\n"], ids=repr)
def test_a_stream_that_ends_early_is_a_lost_connection(stream: bytes) -> None:
    reader = ReplyReader(Stream(stream, []).recv_into)

    with pytest.raises(ConnectionError):
        reader.read()


@pytest.mark.parametrize("stream", [b":1\r\n", b"+OK\r\n", b"$99999999999\r\n", b"$-7\r\n"], ids=repr)
def test_a_value_is_a_string_of_sane_length(stream: bytes) -> None:
    reader = ReplyReader(Stream(stream, []).recv_into)

    with pytest.raises(TierProtocolError):
        reader.read_into([memoryview(bytearray(3))])
