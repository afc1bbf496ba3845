"""A client that measures says what went wrong instead of an answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hypertier.errors import LabError
from hypertier.lab.client import ask

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@contextmanager
def streaming(*events: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(HEAD + b"".join(b"data: %s\n\n" % event for event in events))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):  # closing before all of the request was read would reset it
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            thread.join()


def test_an_answer_is_read_to_its_end() -> None:
    with streaming(b'{"choices": [{"delta": {"content": "Hi"}}]}', b"[DONE]") as url:
        assert ask(url, "m", "Hello").text == "Hi"


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        pytest.param((b'{"error": {"message": "no such model"}}', b"[DONE]"), "no such model", id="an-error"),
        pytest.param((b"{",), "broke off", id="no-json"),
        pytest.param((b"[1]",), "broke off", id="no-object"),
        pytest.param((b'{"choices": []}',), "after 0 characters", id="no-end"),
    ],
)
def test_what_is_no_whole_answer_is_said(events: tuple[bytes, ...], problem: str) -> None:
    with streaming(*events) as url, pytest.raises(LabError, match=problem):
        ask(url, "m", "Hello")
