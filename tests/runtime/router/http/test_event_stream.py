"""Events come out of a body as soon as they are whole, and one that has no end is not kept."""

from __future__ import annotations

import pytest

from hypertier.router.http.event_stream import MAX_EVENT_BYTES, Chunks, chunk

ENDS = pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"], ids=repr)


@ENDS
def test_event_goes_on_as_soon_as_it_is_whole_whatever_ends_its_lines(end: bytes) -> None:
    chunks = Chunks()
    sent = [b"data: 1" + end, b"data:2" + end, b": ping" + end]
    data = b"".join(sent) + b"data: 3"

    told = [chunks.events(chunk(part)) for part in (data[:9], data[9:])]

    assert [event for events in told for event in events] == sent


@ENDS
@pytest.mark.parametrize("is_chunked", [True, False], ids=["chunks", "plain"])
def test_wherever_a_body_is_cut_its_events_are_the_same(end: bytes, is_chunked: bool) -> None:
    sent = [b"data: 1" + end, b"data: 2" + end]
    data = b"".join(sent)
    for size in range(1, len(data)):
        chunks = Chunks(is_chunked=is_chunked)
        parts = [data[begin : begin + size] for begin in range(0, len(data), size)]

        told = [event for part in parts for event in chunks.events(chunk(part) if is_chunked else part)]

        assert told == sent


def test_what_is_left_at_the_end_is_an_event_too() -> None:
    chunks = Chunks()

    told = chunks.events(chunk(b"data: 1\n\ndata: [DONE]") + b"0\r\n\r\n")

    assert told == [b"data: 1\n\n", b"data: [DONE]"]
    assert chunks.uncut() == b""


def test_no_more_is_kept_than_an_event_may_have() -> None:
    chunks = Chunks(is_chunked=False)
    piece = b"x" * 2**16
    told, largest = 0, 0
    for _ in range(3 * MAX_EVENT_BYTES // len(piece)):
        assert chunks.events(piece) == []
        if chunks.is_uncut:
            part = chunks.uncut()
            told, largest = told + len(part), max(largest, len(part))

    assert told == 3 * MAX_EVENT_BYTES
    assert largest == MAX_EVENT_BYTES + len(piece)
