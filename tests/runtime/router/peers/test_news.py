"""What routers say to one another is read as it was written, and nothing else is read."""

from __future__ import annotations

from contextlib import suppress

import pytest
from fakes_router import told
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import PeerError
from hypertier.router.api.openai import BLOCK_ENDS
from hypertier.router.peers.news import (
    ALIVE_MESSAGE,
    GREETING_BYTES,
    MAX_BODY_BYTES,
    MAX_NAME_BYTES,
    MAX_PROMPT_BYTES,
    Alive,
    Answered,
    Finished,
    FirstToken,
    News,
    Reader,
    Sent,
    answered_message,
    finished_message,
    first_token_message,
    greeting,
    read_greeting,
    sent_message,
)

NUMBERS = st.integers(0, 2**64 - 1)
HEAD_BYTES = 3


def lengths(num_bytes: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.just(num_bytes), st.integers(0, num_bytes))


SENT = st.builds(
    lambda number, replica, sizes, streamed, hashes: Sent(number, replica, *sizes, streamed, tuple(hashes)),
    NUMBERS,
    st.binary(max_size=MAX_NAME_BYTES),
    st.integers(0, MAX_PROMPT_BYTES).flatmap(lengths),
    st.booleans(),
    st.lists(NUMBERS, max_size=len(BLOCK_ENDS)),
)
NEWS = st.one_of(
    SENT,
    st.builds(FirstToken, NUMBERS),
    st.builds(Finished, NUMBERS),
    st.builds(Answered, NUMBERS),
    st.builds(Alive),
)


def written(news: News) -> bytes:
    if isinstance(news, Sent):
        sizes = (news.num_bytes, news.matched_bytes)
        return sent_message(news.number, news.replica, *sizes, news.streamed, news.block_hashes)
    if isinstance(news, FirstToken):
        return first_token_message(news.number)
    if isinstance(news, Answered):
        return answered_message(news.number)
    if isinstance(news, Finished):
        return finished_message(news.number)
    return ALIVE_MESSAGE


@given(st.lists(NEWS, max_size=8), st.lists(st.integers(1, 400)))
def test_news_are_read_as_written_however_they_are_cut(news: list[News], cuts: list[int]) -> None:
    data = b"".join(map(written, news))
    reader, read = Reader(), list[News]()

    for cut in cuts:
        read += reader.feed(data[:cut])
        data = data[cut:]
    read += reader.feed(data)

    assert list(map(told, read)) == list(map(told, news))
    assert reader.num_held == 0


@given(st.lists(st.one_of(st.binary(max_size=3000), NEWS.map(written)), max_size=20))
def test_any_bytes_are_read_or_refused_and_less_than_a_message_is_held(parts: list[bytes]) -> None:
    reader = Reader()

    with suppress(PeerError):
        for part in parts:
            reader.feed(part)

            assert reader.num_held < HEAD_BYTES + MAX_BODY_BYTES


@given(NEWS, st.data())
def test_a_message_with_a_byte_changed_reads_as_news_within_bounds_or_is_refused(
    news: News, data: st.DataObject
) -> None:
    message = bytearray(written(news))
    message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))

    try:
        read = Reader().feed(bytes(message))
    except PeerError:
        return

    for one in read:
        if isinstance(one, Sent):
            assert 0 <= one.matched_bytes <= one.num_bytes <= MAX_PROMPT_BYTES
            assert len(one.block_hashes) <= len(BLOCK_ENDS)
            assert len(one.replica) <= MAX_NAME_BYTES


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff\x01", id="longer-than-any"),
        pytest.param(b"\x00\x00\x09", id="unknown-kind"),
        pytest.param(b"\x00\x01\x04x", id="alive-with-a-body"),
        pytest.param(b"\x00\x07\x02" + bytes(7), id="short-number"),
        pytest.param(b"\x00\x09\x03" + bytes(9), id="long-number"),
        pytest.param(b"\x00\x05\x01" + bytes(5), id="sent-cut-off"),
        pytest.param(sent_message(1, b"a:1", 10, 11, True, ()), id="more-cached-than-there-is"),
        pytest.param(sent_message(1, b"a:1", 2**60, 0, True, ()), id="prompt-larger-than-memory"),
        pytest.param(b"\x00\x23\x01" + bytes(25) + b"\x00\x03a:1" + bytes(5), id="hash-cut-off"),
        pytest.param(sent_message(1, bytes(520), 10, 0, True, ()), id="long-name"),
        pytest.param(
            sent_message(1, b"a:1", 10, 0, True, tuple(range(len(BLOCK_ENDS) + 1))), id="too-many-hashes"
        ),
        pytest.param(b"\x00\x1b\x01" + bytes(25) + b"\xff\xff", id="name-beyond-the-message"),
    ],
)
def test_what_no_router_writes_is_refused(data: bytes) -> None:
    whole = int.from_bytes(data[:2], "big") + HEAD_BYTES

    with pytest.raises(PeerError) as caught:
        Reader().feed(data.ljust(min(whole, 4000), b"\0"))

    assert caught.value.cause == "malformed"


def test_a_greeting_names_the_router() -> None:
    data = greeting(bytes(range(16)))

    assert len(data) == GREETING_BYTES
    assert read_greeting(data) == bytes(range(16))


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        pytest.param(b"htrn\x03" + bytes(16), "version", id="later"),
        pytest.param(b"htrn\x01" + bytes(16), "version", id="earlier"),
        pytest.param(b"GET / HTTP/1.1\r\nHost:", "malformed", id="http"),
    ],
)
def test_a_foreign_greeting_is_refused_under_its_cause(data: bytes, cause: str) -> None:
    with pytest.raises(PeerError) as caught:
        read_greeting(data[:GREETING_BYTES])

    assert caught.value.cause == cause
