"""Heads in their plain form: never more than llhttp takes, and read as it reads them."""

from __future__ import annotations

import httptools
import pytest
from fakes_requests import AMBIGUOUS
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.http.plain import (
    CHUNKED,
    MAX_KEPT_BYTES,
    AnswerReader,
    ResponseHead,
    head_of,
    read_answer,
    read_request,
)

NAMES = [
    "Host",
    "Content-Length",
    "Connection",
    "Transfer-Encoding",
    "X-Request-Id",
    "TE",
    "X-A",
    "X A",
    "",
    "Expect",
]
VALUES = ["", " 5", " a", " keep-alive", " close", " chunked", " 5, 5", " a\tb", " \x01", " \r", " +5", "5\t"]


class Seen:
    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.is_headed = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_headed = True


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_no_ambiguous_request_is_plain(data: bytes) -> None:
    plain = read_request(data, 8192, 128)

    assert plain is None or not plain.length


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=6), st.sampled_from("GP")
)
def test_what_is_plain_is_a_request_to_llhttp_with_the_same_fields(
    fields: list[tuple[str, str]], method: str
) -> None:
    lines = "".join(f"{name}:{value}\r\n" for name, value in fields)
    data = f"{'GET' if method == 'G' else 'POST'} /a?b HTTP/1.1\r\n{lines}\r\n".encode()
    plain = read_request(data, 8192, 128)
    if plain is None:
        return

    seen = Seen()
    parser = httptools.HttpRequestParser(seen)
    parser.feed_data(data)

    names = [name.lower() for name, _ in seen.fields]
    assert seen.is_headed
    assert parser.should_keep_alive()
    assert names.count(b"host") == 1
    assert names.count(b"content-length") <= 1
    assert plain.length == next(
        (int(value) for name, value in seen.fields if name.lower() == b"content-length"), None
    )
    assert not {b"transfer-encoding", b"te", b"expect"} & set(names)
    kept = [name.lower() for name in (line.partition(b":")[0] for line in plain.fields.split(b"\r\n")[1:])]
    assert kept == [name for name in names if name != b"connection"]
    assert plain.end == len(data)


LENGTHS = [
    b"0",
    b"7",
    b"5",
    b"12",
    b"05",
    b"00",
    b" 5",
    b"5 ",
    b"",
    b"+5",
    b"5, 5",
    b"x",
    b"1" * 15,
    b"1" * 16,
]


@pytest.mark.parametrize("rest", [b"\r\n", b"\r\nX-A: 1\r\n", b"\r\nContent-Length: 5\r\n"])
@pytest.mark.parametrize("second", LENGTHS)
@pytest.mark.parametrize("first", [b"5", b" 12 "])
def test_a_head_that_comes_again_reads_as_if_it_were_new(first: bytes, second: bytes, rest: bytes) -> None:
    def head(length: bytes, rest: bytes) -> bytes:
        return b"POST /a?b HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length:%b%b\r\n" % (
            length,
            rest,
        )

    data = head(first, b"\r\n")
    again = head(second, rest)
    plain, new = read_request(data, 8192, 128), read_request(again, 8192, 128)
    assert plain is not None

    length, begin = head_of(data, plain).measure(again + b"body")

    assert begin == 0 or (new is not None and (new.length, new.end) == (length, begin))
    assert begin == 0 or head_of(data, plain).fields(length).replace(b" ", b"") == new.fields.replace(
        b" ", b""
    )


def test_connections_whose_clients_say_the_same_keep_one_head() -> None:
    one, two = (
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\nX-A: 1\r\n\r\n" % length for length in (5, 70)
    )
    other = one.replace(b"X-A: 1", b"X-A: 2")
    heads = [head_of(data, read_request(data, 8192, 128)) for data in (one, two, other)]

    assert heads[0] is heads[1]
    assert heads[0] is not heads[2]
    assert heads[0].values == {b"host": b"h", b"x-a": b"1"}


def test_a_long_head_is_not_kept_for_others() -> None:
    data = b"GET / HTTP/1.1\r\nHost: h\r\nX-A: %b\r\n\r\n" % (b"a" * MAX_KEPT_BYTES)
    plain = read_request(data, 65536, 128)

    assert head_of(data, plain) is not head_of(data, plain)


@pytest.mark.parametrize(
    ("head", "length"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", 5),
        (b"HTTP/1.1 500 Oh No\r\nTransfer-Encoding: chunked\r\nx-request-id: 1\r\n\r\n", CHUNKED),
    ],
)
def test_plain_answer_tells_where_its_body_ends(head: bytes, length: int) -> None:
    found = read_answer(head + b"rest")

    assert found is not None
    assert (found[0].length, found[0].raw + b"\r\n", found[1]) == (length, head, len(head))


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\ncontent-length: 5\r\n\r\n",
        b"HTTP/1.1 204 None\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n",
    ],
)
def test_answer_that_needs_more_than_counting_is_not_plain(head: bytes) -> None:
    assert read_answer(head) is None


def answer_head(fields: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\n{fields}\r\n".encode()


TOLD = ("raw", "status", "length", "ends_with_connection", "has_request_id", "is_stream")
ANSWERS = {
    "length": answer_head("content-length: 5\r\ndate: a\r\n"),
    "longer": answer_head("content-length: 12345\r\ndate: a\r\n"),
    "leading-zero": answer_head("content-length: 05\r\ndate: a\r\n"),
    "no-number": answer_head("content-length: \r\ndate: a\r\n"),
    "another-date": answer_head("content-length: 5\r\ndate: b\r\n"),
    "a-line-more": answer_head("content-length: 5\r\ndate: a\r\nconnection: close\r\n"),
    "two-lengths": answer_head("content-length: 5\r\ndate: a\r\ncontent-length: 6\r\n"),
    "chunked": answer_head("transfer-encoding: chunked\r\n"),
    "stream": answer_head("content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"),
    "cut-off": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nda",
    "another-status": answer_head("content-length: 5\r\ndate: a\r\n").replace(b"200 OK", b"500 No"),
}


@pytest.mark.parametrize("second", ANSWERS)
@pytest.mark.parametrize("first", ANSWERS)
def test_an_answers_head_reads_the_same_whatever_came_before(first: str, second: str) -> None:
    def told(found: tuple[ResponseHead, int] | None) -> object:
        return found and ({name: getattr(found[0], name) for name in TOLD}, found[1])

    answers = AnswerReader()
    answers.read(ANSWERS[first] + b"body")

    for _ in range(2):
        assert told(answers.read(ANSWERS[second] + b"body")) == told(read_answer(ANSWERS[second] + b"body"))
