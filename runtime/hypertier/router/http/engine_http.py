"""One request to an engine on a connection of its own, for what is not on the way of a client's request."""

from __future__ import annotations

import asyncio

import httptools

from hypertier.errors import HttpError
from hypertier.router.discovery.addresses import Address

_READ_BYTES = 64 * 1024


class AnswerReader:
    """One HTTP answer as its bytes come in; who reads it may take from `body` what is there already."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.status = 0
        """0 until the head is whole."""
        self.is_complete = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Read on. Raises httptools.HttpParserError, for a switch of protocols too: nobody asked for one."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            raise httptools.HttpParserError("an answer of 101") from error

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.is_complete = True


async def connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to an engine, by its TLS where it has one. Raises OSError."""
    tls = address.tls
    return await asyncio.open_connection(
        address.host,
        address.port,
        ssl=tls.context if tls is not None else None,
        server_hostname=tls.name_of(address.host) if tls is not None else None,
    )


class OutOfTimeError(HttpError):
    """All of `timeout_seconds` went by, which says little of an engine where they were few."""


async def ask(
    address: Address,
    request: bytes,
    *,
    timeout_seconds: float,
    max_bytes: int,
    connect_seconds: float | None = None,
) -> tuple[int, bytes]:
    """Status and body of the answer to `request`, a head and a body.

    To connect may take `connect_seconds` of all its time.

    Raises:
        OutOfTimeError: it took longer than `timeout_seconds`.
        HttpError: anything else went wrong.
    """
    answer = AnswerReader()
    writer: asyncio.StreamWriter | None = None
    whole = asyncio.timeout(timeout_seconds)
    try:
        async with whole:
            async with asyncio.timeout(connect_seconds):
                reader, writer = await connect(address)
            writer.write(request)
            while not answer.is_complete:
                data = await reader.read(_READ_BYTES)
                if not data:
                    raise HttpError(f"{address} closed inside an answer")
                answer.feed(data)
                if len(answer.body) > max_bytes:
                    raise HttpError(f"{address} answered with more than {max_bytes} bytes")
    except (OSError, TimeoutError, httptools.HttpParserError) as error:
        kind = OutOfTimeError if whole.expired() else HttpError
        raise kind(f"{address} could not be read: {type(error).__name__}: {error}") from error
    finally:
        if writer is not None:
            writer.transport.abort()
    return answer.status, bytes(answer.body)
