"""Valkey, or Redis 6.2 or newer, as L2, over raw RESP: values are received straight into L1's slots."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from hypertier.errors import TierProtocolError, TierUnavailableError
from hypertier.tier.address import L2Address
from hypertier.tier.backends.backend import Buffer
from hypertier.tier.backends.resp_node import Connection, Node, command
from hypertier.tier.backends.resp_reader import ErrorReply, Reply
from hypertier.tier.credentials import CredentialSource


def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Verify the server's certificate and name, by `ca_file` or by the system's authorities.

    TLS 1.2 or newer.
    """
    context = ssl.create_default_context(cafile=ca_file or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class RespBackend:
    """One Valkey or Redis server. Connects at the first call, and again after any failure."""

    def __init__(self, address: L2Address, credentials: CredentialSource, ca_file: str = "") -> None:
        self._node = Node(address, credentials, tls_context(ca_file) if address.tls else None)

    def exists_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Send one EXISTS per key, all at once; with no keys, send PING."""

        def exchange(connection: Connection) -> list[bool]:
            connection.send([b"".join(command(b"EXISTS", key) for key in keys) or command(b"PING")])
            if not keys:
                expect(connection.read(), b"PONG")
                return []
            return [number(connection.read()) > 0 for _ in keys]

        return self._node.call(exchange, timeout_seconds)

    def get_into(
        self, key: bytes, buffers: Sequence[memoryview], ttl_seconds: int, timeout_seconds: float
    ) -> int | None:
        """Send GETEX ... EX and receive into `buffers`. A key that holds no string holds no value."""

        def exchange(connection: Connection) -> int | None:
            connection.send([command(b"GETEX", key, b"EX", b"%d" % ttl_seconds)])
            length = connection.read_into(buffers)
            if isinstance(length, ErrorReply):
                if length.code == "WRONGTYPE":
                    return None
                raise refusal(length)
            return length

        return self._node.call(exchange, timeout_seconds)

    def put(self, key: bytes, buffers: Sequence[Buffer], ttl_seconds: int, timeout_seconds: float) -> None:
        """Send SET ... EX with the buffers as they lie."""
        length = sum(map(len, buffers))
        head = b"*5\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(key), key, length)
        ttl = b"%d" % ttl_seconds
        tail = b"\r\n$2\r\nEX\r\n$%d\r\n%s\r\n" % (len(ttl), ttl)

        def exchange(connection: Connection) -> None:
            connection.send([head, *buffers, tail])
            expect(connection.read(), b"OK")

        self._node.call(exchange, timeout_seconds)

    def close(self) -> None:
        """Break off all connections."""
        self._node.close()


def refusal(reply: ErrorReply) -> TierUnavailableError:
    """The error for a command that the server refuses to carry out."""
    return TierUnavailableError(f"L2 answered: {reply.message[:200]}")


def expect(reply: Reply, wanted: bytes) -> None:
    """Check that a reply is `wanted`."""
    if isinstance(reply, ErrorReply):
        raise refusal(reply)
    if reply != wanted:
        raise TierProtocolError(f"L2 answered {str(reply)[:64]} where {wanted.decode()} was expected")


def number(reply: Reply) -> int:
    """Check that a reply is a whole number."""
    if isinstance(reply, ErrorReply):
        raise refusal(reply)
    if not isinstance(reply, int):
        raise TierProtocolError(f"L2 answered {str(reply)[:64]} where a number was expected")
    return reply
