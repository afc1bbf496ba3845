"""Requests of our own end: with a whole answer, or with an error that reads on from whom was asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from hypertier.errors import HttpError
from hypertier.http_client import ask_url

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def answering(*parts: bytes, closes: bool = True, pause: float = 0.0) -> Iterator[str]:
    """The URL of a server that sends `parts` to whoever asks, and then closes or falls silent.

    It pauses before each until whoever asked is through.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(ConnectionError):
                connection.recv(65536)
                for part in parts:
                    done.wait(pause)
                    connection.sendall(part)
                if not closes:
                    done.wait(30)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/path?query"
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        pytest.param((HEAD, b"Content-Length: 2\r\n\r\nok"), (200, b"ok"), id="length"),
        pytest.param((HEAD, b"\r\no", b"k"), (200, b"ok"), id="until-closed"),
        pytest.param(
            (HEAD, b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), (200, b"ok"), id="chunks"
        ),
        pytest.param((b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",), (503, b""), id="another-status"),
    ],
)
def test_a_whole_answer_is_given(parts: tuple[bytes, ...], answer: tuple[int, bytes]) -> None:
    with answering(*parts) as url:
        assert ask_url(url, timeout_seconds=10, max_bytes=2) == answer


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        pytest.param((HEAD, b"Content-Length: 9\r\n\r\nok"), "closed 7 bytes before the end", id="cut"),
        pytest.param(
            (HEAD, b"Transfer-Encoding: chunked\r\n\r\n9\r\nok"), "IncompleteRead", id="cut-inside-a-chunk"
        ),
        pytest.param((HEAD, b"\r\nmore"), "more than 3 bytes", id="too-much"),
        pytest.param((b"SSH-2.0-OpenSSH\r\n",), "BadStatusLine", id="no-http"),
        pytest.param((), "closed connection without response|reset by peer", id="nothing"),
    ],
)
def test_what_is_no_whole_answer_is_an_error(parts: tuple[bytes, ...], problem: str) -> None:
    with answering(*parts) as url, pytest.raises(HttpError, match=problem):
        ask_url(url, timeout_seconds=10, max_bytes=3)


def test_who_falls_silent_is_waited_for_no_longer_than_told() -> None:
    with (
        answering(HEAD, b"Content-Length: 2\r\n\r\no", closes=False) as url,
        pytest.raises(HttpError, match="timed out"),
    ):
        ask_url(url, timeout_seconds=0.05, max_bytes=10)


@pytest.mark.parametrize("begin", [HEAD, HEAD + b"\r\n"], ids=["head", "body"])
def test_who_says_a_little_all_the_time_is_waited_for_no_longer_than_told(begin: bytes) -> None:
    with (
        answering(begin, *[b"X: y\r\n"] * 1000, pause=0.01) as url,
        pytest.raises(HttpError, match="timed out"),
    ):
        ask_url(url, timeout_seconds=0.1, max_bytes=10_000)


@pytest.mark.parametrize("url", ["engine-0", "http://engine-0:port", "http://engine-0:99999"])
def test_a_url_without_an_address_is_refused(url: str) -> None:
    with pytest.raises(HttpError, match=r"has no (host|address)"):
        ask_url(url, timeout_seconds=1, max_bytes=1)


def test_who_does_not_answer_is_told_in_plain_words() -> None:
    with socket.socket() as bound:  # and not listening
        bound.bind(("127.0.0.1", 0))

        with pytest.raises(HttpError) as error:
            ask_url(f"http://127.0.0.1:{bound.getsockname()[1]}/", timeout_seconds=5, max_bytes=10)

    assert str(error.value) == "could not be read: Connection refused"
