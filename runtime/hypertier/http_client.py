"""One blocking request on a connection of its own: a whole answer within a time and a size, or an error."""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from hypertier.errors import HttpError, said

_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer; `headers` finds a name however it is written."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


def exchange(
    connection: http.client.HTTPConnection,
    target: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float,
    max_bytes: int,
    on_part: Callable[[bytes], None] = lambda part: None,
) -> Reply:
    """The answer, of whose body `on_part` hears as it comes; the connection is closed.

    Raises:
        HttpError: no whole answer within `timeout_seconds`, or one of more than `max_bytes`.
    """
    end = time.monotonic() + timeout_seconds
    connection.timeout = timeout_seconds
    answer = bytearray()

    def response_class(sock: socket.socket, *args: Any, **more: Any) -> http.client.HTTPResponse:
        return http.client.HTTPResponse(cast(socket.socket, _Until(end, sock)), *args, **more)

    connection.response_class = response_class  # type: ignore[assignment]
    try:
        connection.request(method, target, body, {"Connection": "close", **(headers or {})})
        response = connection.getresponse()
        while part := response.read1(_READ_BYTES):
            answer += part
            if len(answer) > max_bytes:
                raise HttpError(f"sent more than {max_bytes} bytes")
            on_part(part)
        if response.length:  # read1 takes an early end for the end
            raise HttpError(f"closed {response.length} bytes before the end of its answer")
    except (OSError, http.client.HTTPException) as error:
        raise HttpError(f"could not be read: {said(error)}") from error
    finally:
        connection.close()
    return Reply(response.status, response.headers, bytes(answer))


class _Until(io.RawIOBase):
    """What comes on a socket until then, head and body, in however many parts. Raises TimeoutError."""

    def __init__(self, end: float, sock: socket.socket) -> None:
        self._end = end
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, _: str) -> io.BufferedReader:
        """As a socket's."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(max(1e-6, self._end - time.monotonic()))  # 0 would not wait for what is there
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def ask_url(
    url: str, *, method: str = "GET", body: bytes | None = None, timeout_seconds: float, max_bytes: int
) -> tuple[int, bytes]:
    """Status and body of what stands at an http or https URL; proxies of the environment are not used.

    Raises:
        HttpError: as `exchange`, or a URL without a host.
    """
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise HttpError(f"has no address: {error}") from error
    if host is None:
        raise HttpError("has no host")
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    reply = exchange(
        connect(host, port),
        target,
        method=method,
        body=body,
        timeout_seconds=timeout_seconds,
        max_bytes=max_bytes,
    )
    return reply.status, reply.body
