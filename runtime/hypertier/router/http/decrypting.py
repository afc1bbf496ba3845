"""What comes by TLS is read into one buffer for all connections.

Given a protocol that takes bytes, uvloop asks OpenSSL for 256 KiB at a time, and takes so much memory each
time, though a TLS record has 16 KiB at most: three calls of the kernel for a record, and pages to clear
(https://github.com/MagicStack/uvloop/blob/master/uvloop/sslproto.pyx, `_do_read__copied`, read 2026-12-03).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

BUFFER_BYTES: Final = 256 * 1024 + 256
"""What uvloop reads of a socket at once, and what it asks for beside."""

_buffer = memoryview(bytearray(BUFFER_BYTES))  # a loop fills it, and has it read before it goes on


class Decrypting(asyncio.BufferedProtocol):
    """Hands what was decrypted to `protocol`, all that is there at once."""

    __slots__ = ("_data_received", "_protocol")

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._data_received = protocol.data_received

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._data_received(bytes(_buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        told = getattr(self._protocol, "eof_received", None)
        return told() if told is not None else None

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)


def decrypting(factory: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.BaseProtocol]:
    """Makes the same protocols, for connections by TLS."""
    return lambda: Decrypting(factory())
