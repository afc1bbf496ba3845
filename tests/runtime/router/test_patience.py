"""For how long a client's connection is waited for, tick by tick."""

from __future__ import annotations

import pytest
from fakes_connection import AtOnce, Transport
from fakes_engine import get, post

from hypertier.router.http.connection import LINGER_TICKS, MAX_LINGER_BYTES, NEW_TICKS, ClientConnection

READ, IDLE, RESPONSE = 10, 20, 40
MALFORMED = b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"


class Client:
    """One connection, and the seconds that it is given."""

    def __init__(self, sent: bytes = b"") -> None:
        self.owner = AtOnce()
        self.transport = Transport()
        self.connection = ClientConnection(self.owner)
        self.connection.connection_made(self.transport)
        if sent:
            self.connection.data_received(sent)

    def ticks_until_end(self, *, each: bytes = b"", at_most: int = 200) -> int:
        """How many ticks went by until it was refused or closed, `each` being sent after one."""
        for number in range(1, at_most + 1):
            self.owner.tick += 1
            self.connection.sweep(read_timeout=READ, idle_timeout=IDLE, response_timeout=RESPONSE)
            if self.owner.refusals or self.transport.end:
                return number
            if each:
                self.connection.data_received(each)
        return 0


@pytest.mark.parametrize("each", [b"", b"x"], ids=["silent", "byte-by-byte"])
def test_a_head_has_the_read_timeout_in_all(each: bytes) -> None:
    client = Client(b"POST / HTTP/1.1\r\nHost: a\r\nX-Slow: ")

    assert client.ticks_until_end(each=each) == READ + 1
    assert client.owner.refusals == [408]


def test_a_second_heads_time_begins_with_it() -> None:
    client = Client(get(b"/"))
    client.owner.tick += READ

    client.connection.data_received(b"GET /")

    assert client.ticks_until_end(each=b"x") == READ + 1


def test_a_body_may_come_as_slowly_as_it_likes_but_not_stop() -> None:
    client = Client(post(b"/", b"x" * 1000)[:-1000])

    assert client.ticks_until_end(each=b"x", at_most=5 * READ) == 0
    assert client.ticks_until_end() == READ + 1
    assert client.owner.refusals == [408]


def test_a_client_that_says_nothing_more_is_let_go_after_the_idle_timeout() -> None:
    client = Client(get(b"/"))

    assert client.ticks_until_end() == IDLE + 1
    assert (client.transport.end, client.owner.refusals) == ("closed", [])


def test_a_client_that_does_not_read_has_the_response_timeout() -> None:
    client = Client(get(b"/"))
    client.connection.pause_writing()

    assert client.ticks_until_end() == RESPONSE + 1
    assert client.transport.end == "aborted"


def test_a_client_that_reads_again_is_idle_from_then_on() -> None:
    client = Client(get(b"/"))
    client.connection.pause_writing()
    client.owner.tick += RESPONSE - 1
    client.connection.resume_writing()

    assert client.ticks_until_end() == IDLE + 1


def test_what_follows_a_refusal_is_read_for_a_while_and_no_longer() -> None:
    client = Client(MALFORMED)
    assert client.owner.refusals.pop() == 400

    assert client.ticks_until_end(each=b"x") == LINGER_TICKS + 1
    assert client.transport.end == "aborted"


def test_what_follows_a_refusal_is_read_up_to_a_size() -> None:
    client = Client(MALFORMED)

    client.connection.data_received(b"x" * MAX_LINGER_BYTES)
    before = client.transport.end
    client.connection.data_received(b"x")

    assert (before, client.transport.end) == ("", "aborted")


@pytest.mark.parametrize(
    ("sent", "num_ticks"),
    [pytest.param(b"", NEW_TICKS + 1, id="new"), pytest.param(get(b"/"), 1, id="known")],
)
def test_a_drain_waits_a_moment_for_clients_that_have_just_connected(sent: bytes, num_ticks: int) -> None:
    client = Client(sent)
    client.owner.draining = True

    assert client.ticks_until_end() == num_ticks
    assert client.transport.end == "closed"


def test_a_client_that_waits_to_send_its_body_is_told_once_to_go_on() -> None:
    client = Client(
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    client.connection.data_received(b"1\r\n")
    told = client.transport.written
    client.connection.data_received(b"x\r\n0\r\n\r\n")

    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert client.owner.asked == [b"/"]


def test_a_client_that_did_not_wait_with_its_body_is_not_told_to_go_on() -> None:
    client = Client(
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nx"
    )

    client.connection.data_received(b"y\r\n0\r\n\r\n")

    assert (client.transport.written, client.owner.asked) == (b"", [b"/"])


def test_a_client_of_http_1_0_knows_no_going_on() -> None:
    client = Client(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")

    client.connection.data_received(b"{}")

    assert (client.transport.written, client.owner.asked) == (b"", [b"/"])
